package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/datasets"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/cmd/internal/node"
	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/tracing/export"
)

// serveConfig is everything that serve can be told.
type serveConfig struct {
	node.Config
	dataset        []string // texts that validate reads into the configuration of the node
	mixture        []string
	quota          []string
	join           string
	allow          []string
	trustedProxies []string
	logLevel       string
	logFormat      string
}

// Default times of an orderly end: together they stay below the 60 s that orchestrators grant.
const (
	defaultLameDuck = 10 * time.Second
	defaultDrain    = 45 * time.Second
)

func (c *serveConfig) define(f *cli.Flags) {
	f.Section("data")
	c.defineData(f)
	f.Section("ports")
	f.Text(&c.Listen, "listen", "127.0.0.1:8080", "`ADDRESS,...` of the data port: HOST:PORT, or unix:PATH for a Unix socket")
	c.SocketMode = 0o600
	cli.Var(f, &c.SocketMode, "socket-mode", "MODE", parseMode, func(m fs.FileMode) string { return fmt.Sprintf("%04o", m) },
		"permissions of Unix sockets, which say who may connect: 0600 this user, 0660 its group too, 0666 everybody")
	f.Text(&c.PortFile, "port-file", "", "`FILE` that gets the bound addresses of the data port, one per line (default none)")
	f.Text(&c.AdminListen, "admin-listen", "", "`ADDRESS` of a port of their own for metrics, statistics and profiles")
	f.Text(&c.HealthListen, "health-listen", "", "`ADDRESS` of a port of its own for /healthz and /readyz, plain HTTP")
	f.Duration(&c.FirstByteTimeout, "first-byte-timeout", time.Minute, "time to the first byte of an answer; a request that takes longer gets 504")
	f.Duration(&c.LameDuck, "lame-duck", defaultLameDuck, "after SIGTERM, time to go on serving while not ready")
	f.Duration(&c.DrainTimeout, "drain-timeout", defaultDrain, "after the lame-duck time, time to wait for open requests at most")
	f.Text(&c.WhileLocked, "while-locked", "", "end when no process holds a lock (flock) on `FILE` any more (default: when a signal says so)")
	f.Duration(&c.Linger, "linger", time.Minute, "with --while-locked, time to go on after the last lock")
	f.Section("access")
	f.Text(&c.TLSCert, "tls-cert", "", "PEM `FILE` with the certificate of the data and admin ports, for https (default none: plain HTTP)")
	f.Text(&c.TLSKey, "tls-key", "", "PEM `FILE` with the key of --tls-cert")
	f.Text(&c.ClientCA, "client-ca", "", "PEM `FILE` with the authorities whose certificates clients may show (default none)")
	c.defineAccess(f)
	f.Section("memory")
	c.defineMemory(f)
	f.Section("disk")
	c.defineDisk(f)
	f.Section("cluster")
	c.defineCluster(f)
	f.Section("store")
	f.Number(&c.Fetchers, "fetchers", 0, fmt.Sprintf("store reads side by side; 0: %d at first, and then as many as the bandwidth of the store pays", datapath.DefaultFetchers))
	f.Size(&c.PartSize, "part-size", datapath.DefaultPartSize, "size of one store read at most")
	f.Flag(&c.CheckSHA256, "check-sha256", "compare SHA-256 too when a chunk arrives; single samples from other gateways have CRC-32C only")
	f.Flag(&c.Stores.S3Traceparent, "s3-traceparent", "send the traceparent of traced reads to the S3 service")
	f.Section("log")
	f.Choice(&c.logLevel, "log-level", "info", "least level of the lines that are logged", "debug", "info", "warn", "error")
	f.Choice(&c.logFormat, "log-format", "auto", "form of the log; auto is text on a terminal and else JSON", "auto", "text", "json")
	f.Section("")
	f.Flag(&c.Check, "check", "validate everything, print the effective settings and exit")
}

// parseMode reads permissions that let this user connect.
func parseMode(s string) (fs.FileMode, error) {
	n, err := strconv.ParseUint(s, 8, 32)
	if err != nil || n&^0o777 != 0 || n&0o600 != 0o600 {
		return 0, errors.New("want permissions such as 0600, 0660 or 0666")
	}
	return fs.FileMode(n), nil
}

func (c *serveConfig) defineData(f *cli.Flags) {
	f.Repeated(&c.dataset, "dataset", ",", location.Split, "`NAME=URL` to serve; may be repeated, and the first is the default dataset; NAME= may be left out; ,index=URL behind it says that the index lies elsewhere, ,links=follow has links followed; a bucket's URL may say how its service is reached, as in s3://bucket/photos?endpoint=URL&profile=NAME")
	f.Repeated(&c.mixture, "mixture", ";", func(s string) []string { return strings.Split(s, ";") }, "`NAME=SOURCE:WEIGHT,...`, a mixture of datasets to serve; may be repeated; ,samples=N or ,choose=N/N/... behind it sets the samples of an epoch, ,per-batch=N/N/... those of each batch")
	f.Text(&c.Datasets, "datasets", "", "YAML `FILE` of more datasets and mixtures, read again when it changes (default none)")
	f.Duration(&c.Follow, "follow", 0, "time between two looks whether the datasets have newer indexes, which are served then; 0s: only after SIGHUP or POST /v1/reload")
	f.Text(&c.IndexDir, "index-dir", "", "`DIR` that keeps copies of the indexes (default a temporary directory)")
	f.Text(&c.LossLog, "loss-log", "", "`DIR` that keeps reported losses which the bucket does not take (default none: they are refused)")
}

func (c *serveConfig) defineMemory(f *cli.Flags) {
	c.Memory = node.UsableMemory()
	f.Size(&c.CacheSize, "cache-size", node.DefaultCacheSize(c.Memory), "budget for chunks, transfers, tables and bodies together")
	f.Set.Lookup("cache-size").DefValue = "a quarter of the memory" // the same words on every machine; --check prints the size
	f.Repeated(&c.quota, "quota", ",", splitQuotas, "`DATASET=SIZE` of memory that one dataset has for itself, beside --cache-size; may be repeated; ,disk=SIZE behind it adds disk of its own")
	f.Duration(&c.BudgetWait, "budget-wait", budget.DefaultWait, "time that a batch waits for memory before it gets 503")
	var policies []string
	for _, p := range datapath.Policies() {
		policies = append(policies, string(p))
	}
	f.Choice(&c.CachePolicy, "cache-policy", policies[0], "which chunks leave memory first, of those that no reader comes for soon", policies...)
	f.Flag(&c.NoSharedMemory, "no-shared-memory", "send bytes to readers on this machine too, rather than have them map memory")
	f.Flag(&c.NoPrefetch, "no-prefetch", "do not fetch ahead of the readers")
}

func (c *serveConfig) defineDisk(f *cli.Flags) {
	f.Text(&c.DiskCache, "disk-cache", "", "`DIR` that keeps chunks between memory and store, also over a restart")
	f.Size(&c.DiskCacheSize, "disk-cache-size", 0, "what --disk-cache may take at most; wanted with it")
}

// validate notes every fault that can be seen without opening anything.
func (c *serveConfig) validate(f *cli.Flags) {
	if err := export.Check(); err != nil {
		f.Fault("%w", err)
	}
	c.checkMixtures(f)
	if len(c.dataset) == 0 && c.Datasets == "" {
		f.Fault("expected a DATASET, --dataset NAME=URL or --datasets FILE")
	}
	names := map[string]bool{}
	for i, d := range c.dataset {
		l, err := location.Parse(d)
		switch {
		case err != nil:
			f.Fault("--dataset: %w", err)
		case names[l.Name]:
			f.Fault("--dataset %q: name %q is given twice", location.HideSecrets(d), l.Name)
		default:
			names[l.Name] = true
			c.Locations = append(c.Locations, l)
			c.dataset[i] = l.Name + "=" + l.Address() // as --check prints it
		}
	}
	c.readQuotas(f)
	c.readJoin(f)
	c.checkAccess(f)
	for _, err := range c.Complete() {
		f.Fault("--%w", err)
	}
}

// checkMixtures reads those of the configuration, and notes faults.
func (c *serveConfig) checkMixtures(f *cli.Flags) {
	c.Mixtures = nil
	for _, text := range c.mixture {
		m, err := datasets.ParseMixture(text)
		if err != nil {
			f.Fault("--mixture %q: %v", location.HideSecrets(text), err)
			continue
		}
		c.Mixtures = append(c.Mixtures, m)
	}
}
