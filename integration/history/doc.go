// Package history checks the answers that clients got while gateways, stores and networks failed.
//
// The URL of a batch names dataset, generation and plan. It is a register that is written once, by
// the plan: every complete 200 has the same bytes and the same ETag, whichever gateway sends it and
// whatever fails. Errors and broken bodies are not answers, and prove nothing.
//
// A Log receives the events of all clients as they occur. It keeps a digest for each URL and one
// entry for each sample of a running epoch. It finds:
//
// - two complete answers for a URL with different bytes or ETags - an answer that differs from the
// Plan, which a test computes from the packed data - one ETag with two contents - an answer of
// another generation than its URL names - a sample that an epoch delivers twice or never, over all
// ranks, resumes and world sizes - an epoch that mixes generations or other epochs
//
// Each violation names both events: client, time, URL, and the first byte or sample that differs.
package history
