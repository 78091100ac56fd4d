// Package clustersim runs whole clusters of gateways in one process. It uses the real data path,
// membership and peer protocol. Links, the store and machines are simulated, and suffer faults of
// all kinds, on the fake clock of testing/synctest.
//
// One seed determines one History: the data, the plan, the gateways, the ranks that read, and the
// faults with their times. Run plays the history and reports every violation: bytes that differ
// from the stored ones, a sample missing or delivered twice, a request past its deadline, a request
// forwarded to a third gateway, a chunk read more often than necessary, memory or goroutines left
// over. Responses and deliveries are recorded in a log of package history.
//
// The seed determines everything except the order of simultaneous events, which Go's runtime draws
// for fake timers. After such an event two runs of a seed may differ in times, gateways, retries
// and tiers, but never in the batches that a rank receives (TestRun_OneSeedTwice).
//
// The method is deterministic simulation as published for FoundationDB (Zhou et al., SIGMOD 2021).
// It includes swizzled links, which are clogged one by one and restored in another order.
package clustersim
