// Package jinja renders chat templates: it is the part of Python's jinja2
// that a template can use when the transformers library renders it, with the
// same results to the byte.
//
//	source -> lexer (texts and tags) -> parser (tree) -> Render (walks the tree over Python-like values)
//
// The settings are those of apply_chat_template and cannot be changed: an
// immutable sandbox, trim_blocks, lstrip_blocks, loop controls, {% generation %},
// raise_exception, strftime_now, transformers' own tojson, dict and namespace,
// no escaping. Undefined values, printing, comparing, white space and errors
// follow Python; the tests compare all of it with jinja2 itself.
//
// A template is a file of somebody else: compiling and rendering are bounded
// in time, size and depth, touch nothing outside, and fail with an error
// instead of a panic. What jinja2 has and this package has not (templates that
// load others, escaping, filters for web pages) is an error that names it.
//
// What this package is not: a general template engine, and nothing that knows
// of tokens or models.
//
// A [Template] is immutable and safe for concurrent use.
package jinja
