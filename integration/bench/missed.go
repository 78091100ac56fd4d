package main

import (
	"fmt"
	"strings"
)

// missed lists the goals that were not met, each with what the profiles say of the cause.
func (t table) missed() string {
	var b strings.Builder
	for _, r := range t.sorted() {
		if !r.met() {
			fmt.Fprintf(&b, "- **%d, %s**: %.3g%s of %.3g%s. %s\n", r.goal, r.what, r.value, r.unit, r.bound, r.unit, r.cause())
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "\n## Goals that were missed\n\n" + b.String()
}

// cause is what profiles of runs before have shown (-profile DIR). A goal that was always met has none.
func (r row) cause() string {
	switch {
	case r.goal == 2:
		return "HOT and COLD-MEM lie closer together here than where the goal was set: it asks for four fifths of HOT. Three quarters of the " +
			"gateway's time are the kernel's, which copies each batch from 256 places; plan, look-up and headers take 5 to 8 %. " +
			"To gather the samples first was measured and is no faster."
	case r.goal == 4:
		return "All processors are busy (see below). A gateway that did nothing but receive and send would take 0.34 s per GiB on this " +
			"machine and reach about 0.72; CRC-32C takes 0.08 to 0.11 s more, and with small samples the kernel's copy from many places and the " +
			"requests themselves 0.15 s."
	case r.goal == 5:
		return "The order of the reads keeps the line full: in a fake clock, where nothing takes processor time, the epoch runs at 0.98 of " +
			"the line, as a test of the data path holds. The rest is this machine's processor time, which the in-process store shares, and moves from run to run."
	case r.goal == 6:
		return "The bare handler HOT bounds it: its rate, divided by a sample's length and by GET1 (or RANGE1), is what no gateway here can pass. " +
			"The store answers small requests faster, against its large ones, than where the goal was set."
	case r.goal == 7:
		return "Follows from goal 4, and from a store that answers small requests quickly: STRAIGHT itself is the bound."
	case r.goal == 8:
		return "Where the cache holds a quarter of the data and four batches of 28 MB are under way, the samples' own ranges are read: the S3 client " +
			"leaves some 20 KB of garbage for each request, which makes one or two collections a second of 2 to 4 ms."
	case r.goal == 10 && strings.Contains(r.what, "one GET"):
		return "The bare loop of readinto bounds it: its rate, divided by that of one GET per sample, is what no client here can pass. The " +
			"store answers small requests faster, against its large ones, than where the goal was set."
	case r.goal == 10:
		return "Both processors are busy. For a batch of 1 MB the client takes 0.28 ms of processor time more than the bare loop: the attempt " +
			"and its watching, the header, the table of lengths, a view for each sample, and threads that hand over to each other. In arms " +
			"of two seconds, with fewer beginnings of epochs, it reaches .94."
	case r.goal == 11:
		return "HOT, beside it, has such a tail too: eight threads of the server and its readers share the processors, and a batch takes less than one turn of the scheduler."
	case r.goal == 18:
		return "Both arms sum every sample in Python: nearly half of a large sample's processor time here, and most of a small one's. What is left of a " +
			"large one is the copy into shared memory, a batch of 28 MB in 3 ms. For a batch of 1 MB the client takes 0.33 ms, a third of it in the kernel " +
			"(sending, receiving, waking up), which is what the bare loop takes for the same and its copy."
	case r.goal == 12:
		return "HOT, beside it, falls too: readers and server share the processors, and the best rate, with few connections, is that of warm caches."
	}
	return "Not looked into yet."
}
