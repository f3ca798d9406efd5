; a component that is shown is called

(jsx_opening_element name: (identifier) @call)
(jsx_self_closing_element name: (identifier) @call)
