(method_declaration name: (identifier) @name) @func
(method_declaration parameters: (formal_parameters) @params)
(constructor_declaration name: (identifier) @name) @func.current
(constructor_declaration parameters: (formal_parameters) @params)
(compact_constructor_declaration name: (identifier) @name) @func.current

(class_declaration name: (identifier) @name) @type
(interface_declaration name: (identifier) @name) @type.current
(enum_declaration name: (identifier) @name) @type.current
(record_declaration name: (identifier) @name) @type.current
(annotation_type_declaration name: (identifier) @name) @type.current
(superclass (type_identifier) @base)
(superclass (generic_type (type_identifier) @base))
(superclass (scoped_type_identifier) @base)
(extends_interfaces (type_list [(type_identifier) (scoped_type_identifier)] @base))
(extends_interfaces (type_list (generic_type (type_identifier) @base)))
(field_declaration declarator: (variable_declarator name: (identifier) @field))

(import_declaration) @import

(method_invocation name: (identifier) @call)
(object_creation_expression type: (type_identifier) @call)
(object_creation_expression type: (generic_type (type_identifier) @call))
