package main

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/shuffle"
)

// planFlags are the plan parameters of commands that use a gateway.
type planFlags struct {
	opt     client.Options
	dataset string
}

// define defines --epoch, and the parameters of some groups except the named ones.
func (p *planFlags) define(f *cli.Flags, groups address.Group, without ...string) {
	f.Text(&p.dataset, "dataset", "", "`NAME` dataset (default the one in the address, or the gateway's default)")
	f.Count(&p.opt.Epoch, "epoch", 0, "epoch number, from 0")
	parameterFlags(f, &p.opt, groups, without...)
}

// parameterFlags defines a flag for each parameter of some groups, except the named ones.
func parameterFlags(f *cli.Flags, opt *client.Options, groups address.Group, without ...string) {
	for _, r := range address.Parameters() {
		if r.Group&groups == 0 || slices.Contains(without, r.Name) {
			continue
		}
		flag := flagOf(r.Name)
		switch field := opt.Parameter(r.Name).(type) {
		case **uint64:
			f.Optional(field, flag, r.Help)
		case *uint64:
			f.Between(field, flag, r.Least, math.MaxUint64, 0, r.Help)
		case *string:
			if r.Words != nil {
				f.Choice(field, flag, "", r.Help, r.Words...)
			} else {
				f.Text(field, flag, "", "`"+cmp.Or(placeholders[r.Name], strings.ToUpper(r.Name))+"` "+r.Help)
			}
		}
	}
}

// placeholders maps parameters to the placeholders of their flags, if these differ from the type.
var placeholders = map[string]string{"importance": "SNAPSHOT", "quarantine": "DIGEST", "generation": "HASH", "fields": "NAME,..."}

// flagOf returns the name of a parameter's flag.
func flagOf(parameter string) string { return strings.ReplaceAll(parameter, "_", "-") }

// orderOf returns the order that results from the flags and the defaults of a dataset.
func orderOf(opt *client.Options, def chunkindex.Defaults) (shuffle.Params, error) {
	q := address.ParseQuery(opt.Query().Encode(), address.EpochNames()...)
	params := address.DecodeOrder(q, def)
	return params, q.Err()
}

func (p *planFlags) check(f *cli.Flags) {
	if n := max(p.opt.WorldSize, 1); p.opt.Rank >= n {
		f.Fault("--rank %d must be less than --world-size, %d", p.opt.Rank, n)
	}
	if p.opt.Share == string(shuffle.Locality) && p.opt.Balance != "" && p.opt.Balance != "samples" {
		f.Fault("--share locality and --balance %s exclude each other", p.opt.Balance)
	}
	switch {
	case p.opt.Homes == 0:
	case p.opt.Share != string(shuffle.Locality):
		f.Fault("--homes requires --share locality")
	case p.opt.Homes > max(p.opt.WorldSize, 1):
		f.Fault("--homes %d: must be at most --world-size, %d", p.opt.Homes, max(p.opt.WorldSize, 1))
	}
}
