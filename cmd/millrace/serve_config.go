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
	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/tracing/export"
	"github.com/millrace-data/millrace/internal/words"
)

// serveConfig is the configuration of serve, with its flags.
type serveConfig struct {
	node.Config
	flags     *cli.Flags // nil: not from a command line
	dataset   []string   // unparsed values, which validate parses into node.Config
	mixture   []string
	join      string
	allow     []string
	logLevel  string
	logFormat string
}

// Default times of a shutdown. Their sum is below the 60 s that orchestrators allow.
const (
	defaultLameDuck = 10 * time.Second
	defaultDrain    = 45 * time.Second
)

// define defines the settings. Main marks those of the short help, SettingOnly those without a
// flag.
func (c *serveConfig) define(f *cli.Flags) {
	c.flags = f
	f.Section("data")
	c.defineData(f)
	f.Section("ports")
	c.definePorts(f)
	f.Section("access")
	c.defineAccess(f)
	f.Section("memory")
	c.defineMemory(f)
	f.Section("disk")
	c.defineDisk(f)
	f.Section("cluster")
	c.defineCluster(f)
	f.Section("store")
	f.Number(&c.Parallel, "parallel", 0, 0, "maximum concurrent store reads (0: automatic)")
	f.SettingOnly().Size(&c.PartSize, "part-size", datapath.DefaultPartSize, "maximum size of one store read")
	f.SettingOnly().Flag(&c.CheckSHA256, "check-sha256", "verify the SHA-256 of each chunk, in addition to CRC-32C")
	f.SettingOnly().Flag(&c.Stores.S3Traceparent, "s3-traceparent", "send traceparent headers to the S3 service")
	f.Section("log")
	f.Main().Choice(&c.logLevel, "log-level", "info", "`LEVEL` minimum level: debug, info, warn or error", "debug", "info", "warn", "error")
	f.Choice(&c.logFormat, "log-format", "auto", "log format; auto: text on a terminal, else JSON", "auto", "text", "json")
	f.Section("")
	f.Flag(&c.Check, "check", "validate all settings, print them and exit")
}

// parseMode parses permissions, which must allow this user to read and write.
func parseMode(s string) (fs.FileMode, error) {
	n, err := strconv.ParseUint(s, 8, 32)
	if err != nil || n&^0o777 != 0 || n&0o600 != 0o600 {
		return 0, errors.New("must be permissions such as 0600, 0660 or 0666")
	}
	return fs.FileMode(n), nil
}

func (c *serveConfig) defineData(f *cli.Flags) {
	f.Main().Repeated(&c.dataset, "dataset", ",", location.Split, "`NAME=URL` dataset to serve; repeatable; the first is the default")
	f.Main().Repeated(&c.mixture, "mixture", ";", func(s string) []string { return strings.Split(s, ";") }, "`MIXTURE` weighted mixture, NAME=SOURCE:WEIGHT,...; repeatable")
	f.Main().Text(&c.Datasets, "datasets", "", "`FILE` YAML file of datasets and mixtures, reloaded on change")
	f.Main().Duration(&c.Follow, "follow", 0, "how often to check for newer indexes (0: only on reload)")
	f.SettingOnly().Text(&c.IndexDir, "index-dir", "", "`DIR` directory for copies of indexes (default in disk-cache, else temporary)")
	f.SettingOnly().Text(&c.LossLog, "loss-log", "", "`DIR` directory for loss reports that the store rejects (default none)")
}

func (c *serveConfig) definePorts(f *cli.Flags) {
	f.Main().Text(&c.Listen, "listen", "127.0.0.1:8080", "`ADDRESS` data port, HOST:PORT or unix:PATH, or a list")
	modes := cli.Kind[fs.FileMode]{Name: "MODE", Parse: parseMode, Format: func(m fs.FileMode) string { return fmt.Sprintf("%04o", m) }}
	cli.Var(f.SettingOnly(), &c.SocketMode, "socket-mode", 0o600, modes, "permissions of Unix sockets")
	f.SettingOnly().Text(&c.PortFile, "port-file", "", "`FILE` write the data port's bound addresses, one per line")
	f.Main().Text(&c.AdminListen, "admin-listen", "", "`ADDRESS` separate port for metrics, statistics and profiles")
	f.SettingOnly().Text(&c.HealthListen, "health-listen", "", "`ADDRESS` plain HTTP port for /healthz and /readyz only")
	f.SettingOnly().Duration(&c.FirstByteTimeout, "first-byte-timeout", time.Minute, "time limit to the first byte of a response")
	f.Duration(&c.LameDuck, "lame-duck", defaultLameDuck, "after SIGTERM, time to serve while /readyz fails")
	f.SettingOnly().Duration(&c.DrainTimeout, "drain-timeout", defaultDrain, "time limit for open requests to finish, after lame-duck")
	f.SettingOnly().Text(&c.WhileLocked, "while-locked", "", "`FILE` exit when no process holds a lock (flock) on the file")
	f.SettingOnly().Duration(&c.Linger, "linger", time.Minute, "time to serve after the last process unlocks the file of while-locked")
}

func (c *serveConfig) defineMemory(f *cli.Flags) {
	c.Memory = node.UsableMemory()
	f.Main().Size(&c.CacheSize, "cache-size", node.DefaultCacheSize(c.Memory), "memory for chunks, transfers and responses")
	f.Set.Lookup("cache-size").DefValue = "1/4 of all memory" // the same text on every machine; --check prints the actual size
	cli.List(f, &c.Quota, "quota", nil, cli.Kind[node.Quota]{Parse: parseQuota, Format: formatQuota}, ",", splitQuotas, "`DATASET=SIZE` memory for one dataset only; append ,disk=SIZE for disk; repeatable")
	f.SettingOnly().Duration(&c.BudgetWait, "budget-wait", budget.DefaultWait, "time a batch waits for memory before status 503")
	f.SettingOnly().Choice(&c.CachePolicy, "cache-policy", policy.Plan, "eviction policy: by plan, or least recently used", policy.Names()...)
	f.SettingOnly().Flag(&c.NoSharedMemory, "no-shared-memory", "send batches to readers on this machine as bytes, without shared memory")
	f.Flag(&c.NoPrefetch, "no-prefetch", "disable read-ahead")
}

func (c *serveConfig) defineDisk(f *cli.Flags) {
	f.Main().Text(&c.DiskCache, "disk-cache", "", "`DIR` disk cache, which survives restarts (default none)")
	f.Main().Size(&c.DiskCacheSize, "disk-cache-size", 0, "limit of the disk cache")
	f.Set.Lookup("disk-cache-size").DefValue = "4/5 of the free space"
}

// validate records all faults that need no open dataset.
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
			f.Fault("--dataset %q: the name %q is used twice", location.HideSecrets(d), l.Name)
		default:
			names[l.Name] = true
			c.Locations = append(c.Locations, l)
			c.dataset[i] = l.Name + "=" + l.Address() // in the form that --check prints
		}
	}
	c.readJoin(f)
	c.checkAccess(f)
	for _, err := range c.Complete() {
		f.Fault("%s", c.named(err))
	}
}

// named returns the message of a fault, with the flag's name if the setting has a flag.
func (c *serveConfig) named(err error) string {
	fault, ok := errors.AsType[*node.SettingError](err)
	if !ok || c.flags == nil {
		return err.Error()
	}
	return fault.Named(c.flags.NameOf(fault.Setting))
}

// checkMixtures parses the mixtures and records faults.
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

// splitQuotas splits quotas at commas. A part that begins with disk= belongs to the quota before it.
func splitQuotas(s string) (texts []string) {
	for t := range strings.SplitSeq(s, ",") {
		if strings.HasPrefix(t, "disk=") && len(texts) > 0 {
			texts[len(texts)-1] += "," + t
			continue
		}
		texts = append(texts, t)
	}
	return texts
}

// parseQuota parses DATASET=SIZE or DATASET=SIZE,disk=SIZE.
func parseQuota(text string) (q node.Quota, err error) {
	memory, disk, more := strings.Cut(text, ",")
	name, size, named := strings.Cut(memory, "=")
	disk, isDisk := strings.CutPrefix(disk, "disk=")
	if !named || more != isDisk {
		return q, errors.New("must be DATASET=SIZE or DATASET=SIZE,disk=SIZE")
	}
	q.Dataset = name
	if q.Memory, err = cli.ParseSize(size); err == nil && more {
		q.Disk, err = cli.ParseSize(disk)
	}
	return q, err
}

// formatQuota returns a quota as parseQuota accepts it.
func formatQuota(q node.Quota) string {
	text := q.Dataset + "=" + words.Size(q.Memory)
	if q.Disk > 0 {
		text += ",disk=" + words.Size(q.Disk)
	}
	return text
}
