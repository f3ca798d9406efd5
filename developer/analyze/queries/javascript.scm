(class_declaration name: (identifier) @name) @type
(class_heritage (_) @base)
(field_definition property: (property_identifier) @name value: [(arrow_function) (function_expression)]) @func.current
