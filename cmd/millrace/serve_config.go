package main

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/cli"
	"github.com/millrace-data/millrace/internal/location"
	"github.com/millrace-data/millrace/internal/node"
)

// serveConfig is everything that serve can be told.
type serveConfig struct {
	node.Config
	datasets   []string // texts that validate reads into the configuration of the node
	mixtures   []string
	quotaTexts []string
	join       string
	logLevel   string
	logFormat  string
}

// Default times of an orderly end: together they stay below the 60 s that orchestrators grant.
const (
	defaultLameDuck = 10 * time.Second
	defaultDrain    = 45 * time.Second
)

func (c *serveConfig) define(f *cli.Flags) {
	c.Memory = node.UsableMemory()
	f.Repeated(&c.datasets, "dataset", ",", location.Split, "serve `NAME=URL[,index=URL][,links=follow]`; may be repeated, the first is the default dataset")
	f.Repeated(&c.mixtures, "mixture", ";", func(s string) []string { return strings.Split(s, ";") }, "serve `NAME=SOURCE:WEIGHT,SOURCE:WEIGHT[,samples=N|,choose=N/N|,per-batch=N/N]`: a mixture of datasets; may be repeated")
	f.Text(&c.Listen, "listen", "127.0.0.1:8080", "`ADDRESS` of the data port")
	f.Text(&c.AdminListen, "admin-listen", "", "`ADDRESS` of a port of their own for metrics, statistics and profiles")
	f.Text(&c.TLSCert, "tls-cert", "", "PEM `FILE` with the certificate of the data and admin ports, for https (default none: plain HTTP)")
	f.Text(&c.TLSKey, "tls-key", "", "PEM `FILE` with its key")
	f.Text(&c.ClientCA, "client-ca", "", "PEM `FILE` with the authorities whose certificates clients may show (default none)")
	f.Flag(&c.Insecure, "insecure-no-auth", "allow a --listen address that others can reach: there are no tokens yet")
	f.Size(&c.CacheSize, "cache-size", node.DefaultCacheSize(c.Memory), "`SIZE` of the budget for chunks, transfers, tables and bodies together")
	f.Set.Lookup("cache-size").DefValue = "a quarter of the memory" // the same words on every machine; --check prints the size
	f.Duration(&c.Wait, "budget-wait", budget.DefaultWait, "`DURATION` that a batch waits for memory before it gets 503")
	f.Duration(&c.Deadline, "deadline", time.Minute, "`DURATION` to the first byte of an answer")
	f.Text(&c.IndexDir, "index-dir", "", "`DIR` that keeps copies of the indexes (default a temporary directory)")
	f.Text(&c.LossLog, "loss-log", "", "`DIR` that keeps reported losses which the bucket does not take (default none: they are refused)")
	f.Number(&c.Fetchers, "fetchers", datapath.DefaultFetchers, "`N` store reads side by side")
	f.Size(&c.PartSize, "part-size", datapath.DefaultPartSize, "`SIZE` of one store read at most")
	f.Flag(&c.CheckSHA, "check-sha256", "compare SHA-256 too when a chunk arrives; single samples from other gateways have CRC-32C only")
	c.defineDisk(f)
	c.defineQuotas(f)
	f.Flag(&c.NoPrefetch, "no-prefetch", "do not fetch ahead of the readers")
	f.Duration(&c.LameDuck, "lame-duck", defaultLameDuck, "after SIGTERM go on serving for `DURATION`, not ready")
	f.Duration(&c.Drain, "drain-timeout", defaultDrain, "then wait for open requests for `DURATION` at most")
	c.defineCluster(f)
	f.Choice(&c.logLevel, "log-level", "info", "`LEVEL` of the log", "debug", "info", "warn", "error")
	f.Choice(&c.logFormat, "log-format", "auto", "`FORMAT` of the log", "auto", "text", "json")
	defineStores(&c.Stores, f)
	f.Flag(&c.Check, "check", "validate everything, print the effective configuration and exit")
}

// validate notes every fault that can be seen without opening anything.
func (c *serveConfig) validate(f *cli.Flags) {
	checkStores(&c.Stores, f)
	c.checkMixtures(f)
	if len(c.datasets) == 0 {
		f.Fault("--dataset: want at least one NAME=URL")
	}
	names := map[string]bool{}
	for _, d := range c.datasets {
		l, err := location.Parse(d)
		switch {
		case err != nil:
			f.Fault("--dataset: %w", err)
		case names[l.Name]:
			f.Fault("--dataset %q: name %q is given twice", location.HideSecrets(d), l.Name)
		default:
			names[l.Name] = true
			c.Locations = append(c.Locations, l)
		}
	}
	c.validateListen(f)
	c.validateDisk(f)
	c.validateQuotas(f)
	c.validateCluster(f)
	if c.Cluster.Name != "" && c.Cluster.Listen == c.Listen {
		f.Fault("--peer-listen %s: the same address as --listen", c.Listen)
	}
	if c.CacheSize < 1<<20 {
		f.Fault("--cache-size %s: want at least 1MiB", cli.FormatSize(c.CacheSize))
	}
	if c.CacheSize > c.Memory {
		f.Fault("--cache-size %s: more than the %s this process may use", cli.FormatSize(c.CacheSize), cli.FormatSize(c.Memory))
	}
	if c.Deadline == 0 {
		f.Fault("--deadline 0s: want more")
	}
	if c.Wait == 0 {
		f.Fault("--budget-wait 0s: want more")
	}
	if c.Fetchers == 0 {
		f.Fault("--fetchers 0: want at least 1")
	}
	if c.PartSize < 64<<10 {
		f.Fault("--part-size %s: want at least 64KiB", cli.FormatSize(c.PartSize))
	}
}

func (c *serveConfig) validateListen(f *cli.Flags) {
	host, _, err := net.SplitHostPort(c.Listen)
	switch {
	case err != nil:
		f.Fault("--listen %q: want HOST:PORT", c.Listen)
	case !loopback(host) && !c.Insecure:
		f.Fault("--listen %s: others can reach this address and there are no tokens yet; use 127.0.0.1 or add --insecure-no-auth", c.Listen)
	}
	switch {
	case (c.TLSCert == "") != (c.TLSKey == ""):
		f.Fault("--tls-cert and --tls-key: want both, or none")
	case c.ClientCA != "" && c.TLSCert == "":
		f.Fault("--client-ca: want --tls-cert and --tls-key with it")
	}
	if c.AdminListen == "" {
		return
	}
	host, _, err = net.SplitHostPort(c.AdminListen)
	switch {
	case err != nil:
		f.Fault("--admin-listen %q: want HOST:PORT", c.AdminListen)
	case !loopback(host) && !c.Insecure:
		f.Fault("--admin-listen %s: others can reach this address and there are no tokens yet; use 127.0.0.1 or add --insecure-no-auth", c.AdminListen)
	case c.AdminListen == c.Listen && !strings.HasSuffix(c.Listen, ":0"):
		f.Fault("--admin-listen %s: the same address as --listen", c.AdminListen)
	}
}

// checkMixtures reads those of the configuration, and notes faults.
func (c *serveConfig) checkMixtures(f *cli.Flags) {
	c.Mixed = nil
	for _, text := range c.mixtures {
		m, err := node.ParseMixture(text)
		if err != nil {
			f.Fault("--mixture %q: %v", location.HideSecrets(text), err)
			continue
		}
		c.Mixed = append(c.Mixed, m)
	}
}

// loopback reports whether only this machine can reach a host. An empty host means every address.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// printConfig prints the effective configuration as YAML, with the source of each value that is no default, or as JSON;
// serve --config accepts either.
func (a *app) printConfig(c *serveConfig, f *cli.Flags) error {
	doc := &yaml.Node{Kind: yaml.MappingNode}
	plain := map[string]any{}
	f.Set.VisitAll(func(fl *pflag.Flag) {
		if slices.Contains([]string{"check", "config", "help", "json"}, fl.Name) {
			return
		}
		key := &yaml.Node{Kind: yaml.ScalarNode, Value: fl.Name}
		val := &yaml.Node{Kind: yaml.ScalarNode, Value: location.HideSecrets(fl.Value.String())}
		plain[fl.Name] = val.Value
		if fl.Name == "dataset" {
			val = &yaml.Node{Kind: yaml.SequenceNode}
			var all []string
			for _, l := range c.Locations {
				all = append(all, l.Name+"="+l.Address())
				val.Content = append(val.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: all[len(all)-1]})
			}
			plain[fl.Name] = all
		}
		if val.Kind == yaml.ScalarNode && val.Value == "" {
			val.Style = yaml.DoubleQuotedStyle
		}
		switch {
		case fl.Changed:
			key.HeadComment = "# from the command line"
		case f.Source(fl.Name) != "":
			key.HeadComment = "# from " + f.Source(fl.Name)
		}
		doc.Content = append(doc.Content, key, val)
	})
	text, err := yaml.Marshal(doc)
	if err != nil {
		return fmt.Errorf("print configuration: %w", err)
	}
	return a.Print(plain, func(w io.Writer) { fmt.Fprintf(w, "%s", text) })
}
