package main

import (
	"cmp"
	"fmt"
	"slices"
)

// mark is the bound of a figure, and a change of the product that makes the figure miss it.
type mark struct {
	goal   int
	what   string
	bound  float64
	atMost bool
	fails  string
}

// marks lists all marks by goal. A figure without a mark is shown, but not judged.
func marks() []mark { //nolint:funlen // a table
	all := []mark{
		{1, "warm, photos, against HOT", 1.1, false, "write samples through a buffer of 64 KiB instead of as slices of chunks"},
		{1, "warm, photos, against COLD-MEM", 1.1, false, "copy a batch before it is sent"},
		{1, "warm, photos, against nginx", 2, false, "copy a batch before it is sent"},
		{2, "warm, text, against HOT", 0.75, false, "one write for each sample"},
		{2, "warm, text, against COLD-MEM", 0.82, false, "one write for each sample"},
		{2, "warm, text, against nginx", 1.15, false, "one write for each sample"},
		{3, "processor time per byte, warm, photos, against HOT", 1.02, true, "check CRC-32C again before a batch is sent"},
		{4, "cold epoch, photos, against RELAY", 0.92, false, "fetch only the chunks of the batch that is asked for"},
		{4, "cold epoch, text, against RELAY", 0.8, false, "fetch only the chunks of the batch that is asked for"},
		{4, "gateway's processor time for a GiB of a cold epoch, photos", 0.55, true, "check SHA-256 of each chunk"},
		{4, "gateway's processor time for a GiB of a cold epoch, text", 0.75, true, "check SHA-256 of each chunk"},
		{5, "cold epoch, shaped store, against STRAIGHT", 0.98, false, "begin a window when the one before it has been served"},
		{5, "first batch, against the download of its window alone", 1.25, true, "fetch in stored order instead of the order of demand"},
		{8, "gather of one batch, the slowest", 2, true, "let the collector manage the chunks' memory: stalls of 24 ms"},
		{9, "window: plan and epoch ready", 20, true, "a shuffled array of all samples"},
		{9, "window: memory", 12, true, "a shuffled array of all samples: 4 GB"},
		{9, "window: one of its batches located, window known", 15, true, "shuffle the window again for each batch"},
		{9, "slot: plan and epoch ready", 60, true, "sort the pieces of each lane"},
		{9, "slot: memory", 32, true, "keep each piece of a cut chunk"},
		{9, "slot: one of its batches located, window known", 15, true, "walk the lanes from the beginning of the epoch"},
	}
	for _, set := range []string{"photos", "text"} {
		late := map[string]float64{"photos": 1, "text": 1.5}[set] // 1.1 x the time that the rates of goals 1 and 2 leave
		ratio := func(goal int, what string, photos, text float64, fails string) {
			bound := photos
			if set == "text" {
				bound = text
			}
			all = append(all, mark{goal, fmt.Sprintf(what, set), bound, false, fails})
		}
		ratio(6, "samples warm, %s, against what HOT allows", 0.95, 0.95, "one write for each sample")
		ratio(7, "samples cold, %s, against what STRAIGHT allows", 0.95, 0.95, "fetch only the chunks of the batch that is asked for")
		ratio(10, "Python, iterating, %s, against a bare readinto loop", 0.9, 0.9, "copy each sample out of its batch")
		ratio(10, "Python, iterating, %s, against one GET per sample", 4, 20, "send each batch 100 ms late")
		ratio(12, "1 to 64 connections, the number at which it is worst, %s, against HOT with as many", 0.9, 0.6, "answer one request after the other")
		ratio(12, "epoch 2^40, %s, against epoch 0", 0.9, 0.9, "step through the epochs to find the seed of a later one")
		ratio(16, "warm through the peer tier with mutual TLS, %s, against two bare hops with it between them", 1, 0.75, "a new connection for each question between gateways")
		ratio(17, "warm over TLS, %s, against HOT over TLS", 0.9, 0.75, "one TLS record for each sample")
		ratio(18, "shared memory, %s, against a bare readinto loop over loopback, every sample summed in both", 1.7, 1.2, "answer readers on this machine with bytes")
		all = append(
			all,
			mark{11, "warm latency, p99, " + set + ", against HOT's", late, true, "collect garbage for each batch"},
			mark{11, "CRC-32C, share of the gateway's processor time in a cold epoch, " + set, 0.1, true, "check each chunk once more when it is served"},
			mark{18, "processor time of gateway and reader, " + set + ", against a bare readinto loop over loopback", 0.6, true, "answer readers on this machine with bytes"},
			mark{18, fmt.Sprintf("memory of the gateway and %d workers (PSS) over torch and the budget in use, %s", sharedWorkers, set), 150, true, "workers copy batches out of shared memory"},
		)
	}
	for _, cache := range []string{"a quarter of the data", "all data"} {
		all = append(
			all,
			mark{8, "largest resident size over the budget, room for " + cache, 64, true, "keep chunks on Go's heap: 2 x the budget"},
			mark{8, "collector's share of the processor time, room for " + cache, 0.005, true, "a new buffer for each body"},
		)
	}
	all = append(
		all,
		mark{14, "store reads of the second epoch, cache of half the data, against the bound N - (C - W - 16)", 0.9, true, "evict the least recently used chunk"},
		mark{15, "the other 7 ranks beside a straggler, against STRAIGHT", 0.4, false, "fetch no chunk before it is asked for"},
		mark{15, "the other 7 ranks beside a straggler, against the same without one", 0.95, false, "evict what only the slowest rank still needs"},
	)
	slices.SortStableFunc(all, func(a, b mark) int { return cmp.Compare(a.goal, b.goal) })
	return all
}
