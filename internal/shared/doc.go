// Package shared lends memory to other processes of this machine: they are given a descriptor, and map it for reading. It knows nothing
// of what is written there.
//
// Memory comes in segments. A segment belongs to one connection and serves one purpose, so a process that has a descriptor never sees
// what is written for somebody else. A segment is lent for one batch at a time. It is written again only after the reader has let go of
// that batch, and never after its connection has ended: a process that has mapped it then keeps what is there.
//
// Readers die, forget, and leave their sockets to children. So the kernel is asked whether any other process has a segment open or
// mapped: it grants a write lease on a file (F_SETLEASE) only to one who has it alone. Where a kernel does not answer this question
// rightly, no memory is lent.
package shared
