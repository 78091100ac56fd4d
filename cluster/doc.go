// Package cluster manages the gateways that form one cache: which are members, which are healthy,
// and which owns a chunk.
//
// A Discovery finds addresses: from a list, a DNS name, a service, or a file. A gateway that
// answers a hello there with the same cluster name and version of the order is a member. Others are
// refused with a reason, which the status shows. A gateway that introduces itself gets a hello in
// return, so it is enough if one side finds the other. Hellos are independent of the data path.
// They are sent about every ten seconds, and one second after an unanswered hello. Three unanswered
// hellos end a membership. When an unresponsive address answers again, all such addresses get a
// hello at once.
//
// A member owns chunks of a generation (package placement) if it serves that generation, is not
// draining, and is healthy. An unhealthy member is ejected: other members own its chunks, and no
// read is sent to it.
//
//   - A member that is silent or breaks the protocol is ejected at once, unless more than half of
//     the gateways would be.
//   - A member that refuses for lack of memory or store, or is late, is ejected after three
//     consecutive questions that another gateway has answered in its place (ejection.go). So no
//     member is ejected while the store is down.
//   - A member that sent bytes that differ from the index is ejected for at least 30 s.
//
// An ejection lasts 2 s, then twice as long each time, up to 30 s. After that a hello readmits the
// member; one that refused or was late must first answer a small question. This package does not
// retry: Read asks one member once, and calls back package datapath, which asks the next choice or
// reads the store.
//
// For some minutes after a gateway has joined, the previous owners of its chunks are remembered
// (Former), since they may still hold chunks that were read from the store. A draining member gets
// questions for its former chunks as long as it answers.
//
// A draining gateway announces that in a hello (Drain). Each member then asks it for a list of the
// chunks to take over (Config.Inherit).
//
// There is no consensus: each gateway has its own view, and views may differ for a while. Gateways
// that disagree about the owner of a chunk read it once more from the store, and send the same
// bytes.
package cluster
