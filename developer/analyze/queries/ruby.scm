(method name: (_) @name) @func
(method parameters: (method_parameters) @params)
(method) @method
(singleton_method name: (_) @name) @func
(singleton_method parameters: (method_parameters) @params)
(assignment left: (constant) @const.classic)
(call
  method: (identifier) @_method
  arguments: (argument_list (simple_symbol) @const.classic)
  (#any-of? @_method "attr_reader" "attr_writer" "attr_accessor"))

(class name: [(constant) (scope_resolution)] @name) @type
(module name: [(constant) (scope_resolution)] @name) @type
(superclass (_) @base)

(call
  method: (identifier) @_method
  arguments: (argument_list . (string (string_content) @module))
  (#any-of? @_method "require" "require_relative" "load")) @import

(call method: (identifier) @call)
(call method: (constant) @call)
(call receiver: (constant) @call)
(call receiver: (scope_resolution name: (constant) @call))
(body_statement (identifier) @call.classic)
(program (identifier) @call.classic)

(argument_list (identifier) @call.classic)
(argument_list (constant) @call.classic)
(binary left: (identifier) @call.classic)
(binary right: (identifier) @call.classic)
(return (argument_list (identifier) @call.classic))
(assignment right: (identifier) @call.classic)
