// Package history checks the responses that clients received while gateways, stores and networks
// failed.
//
// The URL of a batch names dataset, generation and plan. It is a register that is written once, by
// the plan: every complete 200 has the same bytes and the same ETag, whichever gateway sends it and
// whatever fails. Errors and incomplete bodies are no values of the register, and prove nothing.
//
// A Log receives the events of all clients as they occur. It stores a digest for each URL and one
// entry for each sample of a running epoch. It finds:
//
//   - two complete responses for a URL with different bytes or ETags
//   - a response that differs from the Plan, which a test computes from the packed data
//   - one ETag with two contents
//   - a response of another generation than its URL names
//   - a sample that an epoch delivers twice or never, over all ranks, resumes and world sizes
//   - an epoch that mixes generations or other epochs
//
// Each violation names both events: client, time, URL, and the first byte or sample that differs.
package history
