(function_item name: (identifier) @name) @func
(function_item parameters: (parameters) @params)
(function_item return_type: (_) @result)
(self_parameter) @method

(struct_item name: (type_identifier) @name) @type
(union_item name: (type_identifier) @name) @type
(enum_item name: (type_identifier) @name) @type.current
(trait_item name: (type_identifier) @name) @type.current
(field_declaration name: (field_identifier) @field)
(impl_item type: (type_identifier) @name) @type @impl
(impl_item type: (generic_type type: (type_identifier) @name)) @type @impl
(impl_item type: (scoped_type_identifier name: (type_identifier) @name)) @type @impl
(impl_item trait: (_) @trait)

(use_declaration) @import

(call_expression function: (identifier) @call)
(call_expression function: (field_expression field: (field_identifier) @call))
(call_expression function: (scoped_identifier name: (identifier) @call))
(call_expression function: (generic_function function: (identifier) @call))
(call_expression function: (generic_function function: (scoped_identifier name: (identifier) @call)))
(call_expression function: (generic_function function: (field_expression field: (field_identifier) @call)))
(macro_invocation macro: (identifier) @call)

(struct_expression name: (type_identifier) @instance)
(field_declaration type: (type_identifier) @fieldtype)
(field_declaration type: (reference_type type: (type_identifier) @fieldtype))
(field_declaration type: (generic_type type: (type_identifier) @fieldtype))
(let_declaration type: (type_identifier) @vartype)
(let_declaration type: (reference_type type: (type_identifier) @vartype))
(parameter type: (type_identifier) @paramtype)
(parameter type: (reference_type type: (type_identifier) @paramtype))
