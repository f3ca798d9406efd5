(function_declaration return_type: (type_annotation) @result)
(generator_function_declaration return_type: (type_annotation) @result)
(method_definition return_type: (type_annotation) @result)
(public_field_definition name: (property_identifier) @name value: [(arrow_function) (function_expression)]) @func.current

(class_declaration name: (type_identifier) @name) @type
(abstract_class_declaration name: (type_identifier) @name) @type
(extends_clause value: (_) @base)
(interface_declaration name: (type_identifier) @name) @type
(extends_type_clause type: (_) @base)
(type_alias_declaration name: (type_identifier) @name) @type
(enum_declaration name: (identifier) @name) @type

(import_statement (import_require_clause source: (string) @module)) @import
