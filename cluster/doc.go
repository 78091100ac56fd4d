// Package cluster knows the gateways that are one cache together: who is there, who is well, and who owns a chunk.
//
// A Discovery finds addresses: a list, the addresses of a name, or a file. A gateway that answers there with a hello of the same
// cluster name and version of the order is a member; others are refused by name, and shown with the reason. A gateway that
// introduces itself is greeted back, so one side is enough to find the other. Hellos are sent beside the data path, about every ten
// seconds, and after one second if the last one was not answered; three unanswered ones end a membership. When an address that
// was given up answers again, all such addresses are greeted at once.
//
// A member owns chunks of a generation (package placement) if it serves that generation, does not drain, and is well. A member that
// is not well is ejected: its chunks belong to others, and no read goes to it.
//
//   - A member that is silent or breaks the protocol is ejected at once, unless more than half of the gateways would be.
//   - A member that refuses for want of memory or store, or is late, is ejected after three questions in a row that another
//     gateway has answered in its place (ejection.go): with the store down nobody is ejected.
//   - A member that sent bytes that are not what the index says is ejected for 30 s at least.
//
// Ejection lasts 2 s, then twice as long each time up to 30 s. After that a hello lets the member in again; one that had
// refused or was late has to answer a small question first. Nothing here retries: Read asks one member once, and calls back
// package datapath, which asks the next choice, or reads the store.
//
// For some minutes after a gateway has come it is remembered who owned its chunks before (Former), for what was read
// once from the store may still be there; of a member that drains as long as it answers.
//
// A gateway that drains says so in a hello (Drain). Each member asks it back, and takes over from its answer what is the member's from
// now on (Config.Inherit).
//
// Nothing here is agreed upon: each gateway has a view of its own, and views differ for a while. Two that take different
// gateways for the owner of a chunk read it once more from the store, and send the same bytes.
package cluster
