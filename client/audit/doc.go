// Package audit decides who lied: servers of one class give the same bits for the same rows, so
// that rows which differ prove a lie, and rows of a third holder say whose.
//
// A claim is what a server gave for the rows of a session that has ended. It is compared with
// what another holder makes of the same rows. What a server in the middle of a chain was
// really sent only its sender and it know: where its claim differs it is asked itself, by the
// client, before anybody is judged.
//
// Nothing here asks anybody: an Asker does. It is not found: a liar who is honest when asked
// again and whose inputs came from another server, holders who collude in the same lie, rows
// that the client never saw.
package audit
