// Package shared lends memory to other processes of this machine: they receive a file descriptor,
// and map it for reading. The package does not interpret the contents.
//
// Memory is divided into segments. A segment belongs to one connection and serves one purpose, so
// that a process with its descriptor never sees the data of another reader. A segment is lent for
// one batch at a time. It is written again only after the reader has released that batch, and never
// after its connection has ended: a process that has mapped it then keeps the contents.
//
// Readers may be killed, never release a lease, or leave their sockets to child processes. So the
// package asks the kernel whether another process has a segment open or mapped: the kernel grants a
// write lease on a file (F_SETLEASE) only if no other process has it open or mapped. On a kernel
// that answers wrongly, no memory is lent.
package shared
