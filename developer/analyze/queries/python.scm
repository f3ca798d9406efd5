(function_definition name: (identifier) @name) @func
(function_definition parameters: (parameters) @params)
(function_definition return_type: (type) @result)

(class_definition name: (identifier) @name) @type
(class_definition superclasses: (argument_list (_)) @base)
(assignment left: (identifier) @assigned.classic)
(assignment left: (pattern_list (identifier) @assigned.classic))

(import_statement) @import
(import_from_statement module_name: (_) @module) @import
(future_import_statement) @import

(call function: (identifier) @call)
(call function: (attribute attribute: (identifier) @call))
(decorator (identifier) @call)
