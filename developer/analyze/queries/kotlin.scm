(function_declaration name: (identifier) @name) @func
(function_value_parameters) @params
(secondary_constructor "constructor" @name) @func.current

(class_declaration name: (identifier) @name) @type
(object_declaration name: (identifier) @name) @type
(companion_object name: (identifier) @name) @type.current
(delegation_specifiers . (delegation_specifier (constructor_invocation (user_type (identifier) @base))))
(delegation_specifiers . (delegation_specifier (user_type (identifier) @base)))

(import) @import

(call_expression (identifier) @call)
(call_expression (navigation_expression (identifier) @call .))
(navigation_expression . (identifier) @call.current)
(constructor_invocation (user_type (identifier) @call))
