(class_specifier name: (type_identifier) @name body: (_)) @type
(base_class_clause (type_identifier) @base)
(base_class_clause (qualified_identifier) @base)
(base_class_clause (template_type name: (type_identifier) @base))

(function_declarator declarator: (field_identifier) @name)
(function_declarator declarator: (destructor_name) @name)
(function_declarator declarator: (operator_name) @name)
(function_declarator declarator: (qualified_identifier name: [(identifier) (destructor_name) (operator_name)] @name))
(function_declarator declarator: (qualified_identifier scope: (namespace_identifier) @owner))
(function_declarator declarator: (qualified_identifier scope: (template_type name: (type_identifier) @owner)))
(function_definition declarator: (reference_declarator (function_declarator parameters: (parameter_list) @params)))

(using_declaration) @import

(call_expression function: (qualified_identifier name: (identifier) @call))
(call_expression function: (qualified_identifier name: (template_function name: (identifier) @call)))
(call_expression function: (qualified_identifier name: (qualified_identifier name: (identifier) @call)))
(call_expression function: (template_function name: (identifier) @call))
(call_expression function: (field_expression field: (template_method name: (field_identifier) @call)))
(new_expression type: (type_identifier) @call)
(new_expression type: (qualified_identifier name: (type_identifier) @call))
