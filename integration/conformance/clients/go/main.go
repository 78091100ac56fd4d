// Command go reads an epoch from Millrace gateways with package client, and prints a line for each sample.
package main

import (
	"bufio"
	"context"
	"fmt"
	"hash/crc32"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/client"
)

func main() {
	if err := read(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(ctx context.Context) (err error) {
	c, err := client.New(client.Config{Gateways: strings.Fields(os.Getenv("MILLRACE_URL")), Dataset: os.Getenv("MILLRACE_DATASET")})
	if err != nil {
		return err
	}
	defer c.CloseIdle()
	opt, err := options()
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	defer func() {
		if flushed := out.Flush(); err == nil {
			err = flushed
		}
	}()
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	for b, err := range c.Batches(ctx, opt) {
		if err != nil {
			return err
		}
		for i := range b.Samples() {
			sample := b.Sample(i)
			fmt.Fprintf(out, "%d %d %d %08x\n", b.Number, i, len(sample), crc32.Checksum(sample, castagnoli))
		}
	}
	return nil
}

// options reads the plan. The dataset's own form has no table of lengths; the manifest contains the
// lengths.
func options() (client.Options, error) {
	opt := client.Options{Manifest: true}
	plan, err := url.ParseQuery(os.Getenv("MILLRACE_PLAN"))
	if err != nil {
		return opt, fmt.Errorf("MILLRACE_PLAN: %w", err)
	}
	opt.Shuffle, opt.Tail = plan.Get("shuffle"), plan.Get("tail")
	plan.Set("epoch", os.Getenv("MILLRACE_EPOCH"))
	var seed uint64
	if plan.Has("seed") {
		opt.Seed = &seed
	}
	for name, to := range map[string]*uint64{
		"epoch": &opt.Epoch, "batch_size": &opt.BatchSize, "seed": &seed, "window": &opt.Window, "rank": &opt.Rank, "world_size": &opt.WorldSize,
	} {
		if !plan.Has(name) {
			continue
		}
		if *to, err = strconv.ParseUint(plan.Get(name), 10, 64); err != nil {
			return opt, fmt.Errorf("%s: %w", name, err)
		}
	}
	return opt, nil
}
