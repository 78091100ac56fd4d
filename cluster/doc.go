// Package cluster knows the gateways that are one cache together: who is there, who is well, and who owns a chunk.
//
// A Discovery finds addresses: a list, the addresses of a name, or a file. Whoever answers there with a hello of the same
// cluster name and version of the order is a member; others are refused by name, and shown with the reason. Who says hello
// to us is greeted back, so that one side is enough to find the other. A hello is repeated about every ten seconds, beside the data path, after a second
// where one is not answered, and three that are not answered end a membership. When an address answers again that was given up, all
// such addresses are greeted at once.
//
// A member owns chunks of a generation (package placement) if it serves that generation, does not drain, and is well. It stops being
// well when a read of it fails, as long as no more than half are ejected: at once, for 2 s, then for twice as long each time up to 30 s, and after that it is well when it has answered a
// hello. Bytes that are not what the index says end its health for 30 s at least. Meanwhile its chunks belong to others, and no read
// goes to it. For some minutes after gateways have come or gone it is remembered who owned what before (Former), for
// what was read once from the store may still be there.
//
// Nothing here is agreed upon: each gateway has a view of its own, and views differ for a while. Two that take different
// gateways for the owner of a chunk read it once more from the store, and send the same bytes.
package cluster
