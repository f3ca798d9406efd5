; what JavaScript and TypeScript have in common

(function_declaration name: (identifier) @name) @func
(function_declaration parameters: (formal_parameters) @params)
(generator_function_declaration name: (identifier) @name) @func.current
(generator_function_declaration parameters: (formal_parameters) @params)
(method_definition name: (_) @name) @func.current
(method_definition parameters: (formal_parameters) @params)
(variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression) (generator_function)]) @func.current
(pair key: (property_identifier) @name value: [(arrow_function) (function_expression)]) @func.current
(assignment_expression
  left: (member_expression property: (property_identifier) @name)
  right: [(arrow_function) (function_expression)]) @func.current

(import_statement source: (string) @module) @import
(export_statement source: (string) @module) @import.current

(call_expression function: (identifier) @call)
(call_expression function: (member_expression property: (property_identifier) @call))
(call_expression function: (member_expression property: (private_property_identifier) @call))
(new_expression constructor: (identifier) @call)
(new_expression constructor: (member_expression property: (property_identifier) @call))
