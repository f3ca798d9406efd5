(function_definition name: (name) @name) @func
(function_definition parameters: (formal_parameters) @params)
(function_definition return_type: (_) @result)
(method_declaration name: (name) @name) @func
(method_declaration parameters: (formal_parameters) @params)
(method_declaration return_type: (_) @result)

(class_declaration name: (name) @name) @type
(interface_declaration name: (name) @name) @type
(trait_declaration name: (name) @name) @type
(enum_declaration name: (name) @name) @type
(base_clause (_) @base)
(property_declaration (property_element name: (variable_name (name) @field)))

(namespace_use_declaration) @import
(require_expression (string (string_content) @module)) @import
(require_once_expression (string (string_content) @module)) @import
(include_expression (string (string_content) @module)) @import
(include_once_expression (string (string_content) @module)) @import

(function_call_expression function: (name) @call)
(function_call_expression function: (qualified_name (name) @call))
(member_call_expression name: (name) @call)
(nullsafe_member_call_expression name: (name) @call)
(scoped_call_expression name: (name) @call)
(object_creation_expression (name) @call)
(object_creation_expression (qualified_name (name) @call))
