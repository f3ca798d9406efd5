(method_declaration name: (identifier) @name) @func
(method_declaration parameters: (parameter_list) @params)
(method_declaration returns: (_) @result)
(constructor_declaration name: (identifier) @name) @func
(constructor_declaration parameters: (parameter_list) @params)
(destructor_declaration name: (identifier) @name) @func
(operator_declaration operator: _ @name) @func
(operator_declaration parameters: (parameter_list) @params)
(local_function_statement name: (identifier) @name) @func
(local_function_statement parameters: (parameter_list) @params)

(class_declaration name: (identifier) @name) @type
(interface_declaration name: (identifier) @name) @type
(struct_declaration name: (identifier) @name) @type
(record_declaration name: (identifier) @name) @type
(enum_declaration name: (identifier) @name) @type
(delegate_declaration name: (identifier) @name) @type
(base_list . (_) @base)
(field_declaration (variable_declaration (variable_declarator name: (identifier) @field)))
(property_declaration name: (identifier) @field)

(using_directive) @import

(invocation_expression function: (identifier) @call)
(invocation_expression function: (generic_name (identifier) @call))
(invocation_expression function: (member_access_expression name: (identifier) @call))
(invocation_expression function: (member_access_expression name: (generic_name (identifier) @call)))
(invocation_expression function: (conditional_access_expression (member_binding_expression name: (identifier) @call)))
(object_creation_expression type: (identifier) @call)
(object_creation_expression type: (generic_name (identifier) @call))
(object_creation_expression type: (qualified_name name: (identifier) @call))
