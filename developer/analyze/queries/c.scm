; what C and C++ have in common

(function_definition) @func
(function_declarator declarator: (identifier) @name)
(function_definition declarator: (function_declarator parameters: (parameter_list) @params))
(function_definition declarator: (pointer_declarator declarator: (function_declarator parameters: (parameter_list) @params)))
(preproc_function_def name: (identifier) @name) @func
(preproc_function_def parameters: (preproc_params) @params)

(struct_specifier name: (type_identifier) @name body: (_)) @type
(union_specifier name: (type_identifier) @name body: (_)) @type
(enum_specifier name: (type_identifier) @name body: (_)) @type
(type_definition declarator: (type_identifier) @name) @type
(field_declaration declarator: (field_identifier) @field)
(field_declaration declarator: (pointer_declarator declarator: (field_identifier) @field))
(field_declaration declarator: (array_declarator declarator: (field_identifier) @field))
(field_declaration declarator: (pointer_declarator declarator: (array_declarator declarator: (field_identifier) @field)))

(preproc_include path: (_) @module) @import

(call_expression function: (identifier) @call)
(call_expression function: (field_expression field: (field_identifier) @call))
