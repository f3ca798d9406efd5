(function_declaration name: (simple_identifier) @name) @func
(function_declaration (parameter) @param)
(function_declaration
  name: [(user_type) (optional_type) (array_type) (dictionary_type) (tuple_type) (function_type) (opaque_type)] @result)
(init_declaration "init" @name) @func.current
(init_declaration (parameter) @param)
(deinit_declaration "deinit" @name) @func.current

(class_declaration name: (type_identifier) @name) @type
(class_declaration name: (user_type (type_identifier) @name)) @type
(protocol_declaration name: (type_identifier) @name) @type
(class_declaration . (_) . (inheritance_specifier inherits_from: (user_type (type_identifier) @base)))
(protocol_declaration . (_) . (inheritance_specifier inherits_from: (user_type (type_identifier) @base)))

(import_declaration) @import

(call_expression . (simple_identifier) @call)
(call_expression . (navigation_expression suffix: (navigation_suffix suffix: (simple_identifier) @call)))
