// Package clustersim runs whole clusters of gateways in one process: the real data path, membership and peer
// protocol, over links, a store and machines that fail in every way, on the fake clock of testing/synctest.
//
// One seed draws one History: the data, the plan, the gateways, the ranks that read, and what befalls them and when.
// Run plays it and reports what was wrong: bytes that are not the stored ones, a sample missing or delivered twice, a
// request past its deadline, a question passed on to a third gateway, a chunk read more often than it had to be,
// memory or goroutines left over. Answers and deliveries are a history of package history.
//
// The seed fixes everything except the order of events at one instant, which Go's runtime draws for fake timers. From such an event on
// two runs of a seed may differ: in times, gateways, retries and tiers, never in the batches that a rank takes
// (TestRun_OneSeedTwice).
//
// The method is that of deterministic simulation as FoundationDB published it (Zhou et al., SIGMOD 2021), swizzled
// links included: they are clogged one by one and freed in another order.
package clustersim
