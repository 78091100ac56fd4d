package main

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/cluster"
	"github.com/millrace-data/millrace/cluster/discovery"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/cmd/internal/node"
	"github.com/millrace-data/millrace/internal/testing/certtest"
)

// fleetFor serves a directory with n gateways that form one cache, until the test ends.
func fleetFor(t *testing.T, dir string, n int, change func(*serveConfig)) (urls []string, stop []func()) {
	t.Helper()
	ports := make([]net.Listener, n)
	var where discovery.Join
	for i := range ports {
		var err error
		if ports[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		where.Targets = append(where.Targets, ports[i].Addr().String())
	}
	for i, port := range ports {
		a := &app{cli.New([]string{"GOMEMLIMIT=off", "GOGC=100"}, &bytes.Buffer{}, &bytes.Buffer{})}
		c := &serveConfig{logLevel: "error", logFormat: "json", Config: node.Config{
			CacheSize: 64 << 20, Memory: 1 << 40, Listen: "127.0.0.1:0", DrainTimeout: defaultDrain,
			LameDuck: time.Millisecond, Locations: []location.Location{{Name: "files", Dir: dir}},
			ClusterConfig: node.ClusterConfig{
				Cluster: "job-a", Member: fmt.Sprintf("gw-%d", i), PeerBound: port, PeerInsecure: true, Join: where,
			},
		}}
		if change != nil {
			change(c)
		}
		url, end := a.running(t, c)
		urls, stop = append(urls, url), append(stop, end)
	}
	return urls, stop
}

// shown requests a gateway's cluster page until it meets the condition, and returns it. It fails
// shortly before the tests' time limit.
func shown(t *testing.T, url string, want func(node.ClusterPage) bool) (page node.ClusterPage) {
	t.Helper()
	end, limited := t.Deadline()
	for tick := time.Tick(time.Millisecond); !limited || time.Until(end) > 10*time.Second; <-tick {
		resp, err := http.Get(url + "/v1/cluster")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		page = node.ClusterPage{}
		if err != nil || json.Unmarshal(text, &page) != nil {
			t.Fatalf("got %s, %v, want JSON", text, err)
		}
		if want(page) {
			return page
		}
	}
	t.Fatalf("got %+v for long, want another one", page)
	return page
}

func members(n int, state cluster.State) func(node.ClusterPage) bool {
	return func(p node.ClusterPage) bool {
		for _, m := range p.Members {
			if m.State == state {
				n--
			}
		}
		return n == 0
	}
}

// TestCluster_IsOneCache: one gateway gets bytes from another one that has read them from the
// store. A draining gateway announces that. The remaining gateway serves alone.
func TestCluster_IsOneCache(t *testing.T) {
	files := certtest.New(t).Issue(t, t.TempDir(), func(c *x509.Certificate) { c.DNSNames = []string{"gateway"} })
	for name, change := range map[string]func(*serveConfig){
		"plain": nil,
		"with certificates": func(c *serveConfig) {
			c.PeerInsecure, c.PeerCert, c.PeerKey, c.PeerCA, c.PeerAllow = false, files.Cert, files.Key, files.CA, []string{"gateway"}
			c.PeerSharedCert = true
		},
		"with a quota": func(c *serveConfig) { c.Quota = []node.Quota{{Dataset: "files", Memory: 32 << 20}} },
	} {
		t.Run(name, func(t *testing.T) {
			urls, stop := fleetFor(t, shards(t), 2, change)
			for _, url := range urls {
				shown(t, url, members(1, cluster.Alive))
			}
			for _, url := range urls {
				ok(t, "fetch", url, "--epoch", "0")
			}
			var tiers node.TierBytes
			late := uint64(0) // questions that the first gateway answered too late, so that a second one may have read the same chunk
			for _, url := range urls {
				page := shown(t, url, func(p node.ClusterPage) bool { // sent bytes are counted shortly after they were sent
					return len(p.Members) == 1 && p.Members[0].Asked.Bytes > 0 && p.Members[0].Answered.Bytes > 0
				})
				tiers.Store += page.Tiers.Store
				tiers.Peers += page.Tiers.Peers
				tiers.Served += page.Tiers.Served
				late += page.Hedges + page.Members[0].Asked.Failed
				if page.Cluster != "job-a" || len(page.Self.Serves) != 1 || page.Self.Serves[0].Share == 0 {
					t.Errorf("got %+v, want a share of the dataset", page.Self)
				}
			}
			if alone := storedBytes(t); tiers.Store < alone || tiers.Store > alone && late == 0 || tiers.Peers == 0 || tiers.Served < tiers.Peers {
				t.Errorf("got %+v with no question late, want %d bytes read from the store once, and the rest from each other", tiers, alone)
			}
			stop[1]()
			page := shown(t, urls[0], func(p node.ClusterPage) bool { // a gateway that is only suspected still owns its chunks
				return p.Members[0].State != cluster.Alive && p.Members[0].State != cluster.Suspect
			})
			if got := page.Self.Serves[0].Share; got != 1 {
				t.Errorf("got a share of %v while the other one is %v, want all of it", got, page.Members[0].State)
			}
			ok(t, "fetch", urls[0], "--epoch", "1")
		})
	}
}

// storedBytes returns the number of bytes of all samples in shards.
func storedBytes(t *testing.T) uint64 {
	t.Helper()
	url := gatewayFor(t, shards(t))
	resp, err := http.Get(url + "/v1/datasets/files")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var d struct {
		Bytes uint64 `json:"bytes"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&d); err != nil {
		t.Fatal(err)
	}
	return d.Bytes
}

func TestServe_ChecksClusterFlags(t *testing.T) {
	data := shards(t)
	files := certtest.New(t).Issue(t, t.TempDir(), func(c *x509.Certificate) { c.DNSNames = []string{"gateway"} })
	secret := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(secret, bytes.Repeat([]byte("k:"), 32), 0o600); err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(t.TempDir(), "gateways")
	if err := os.WriteFile(list, []byte("gw-0\ngw-1:7946\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bundle := filepath.Join(t.TempDir(), "bundle.crt") // CAs of clients: two, one of which is the CA of the gateways
	var both []byte
	for _, file := range []string{certtest.New(t).File, files.CA} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, text...)
	}
	if err := os.WriteFile(bundle, both, 0o600); err != nil {
		t.Fatal(err)
	}
	clients := slices.Clip([]string{"--tls-cert", files.Cert, "--tls-key", files.Key, "MILLRACE_PEER_SHARED_CERT=true", "--client-ca"})
	certs := []string{"--peer-cert", files.Cert, "--peer-key", files.Key, "--peer-ca", files.CA}
	member := slices.Clip([]string{"--cluster", "job-a", "--join", "127.0.0.1", "--peer-listen", "127.0.0.1:7946"})
	local := slices.Clip(append(member, "--peer-insecure"))
	for name, tc := range map[string]struct {
		args []string
		want string // expected error; "": none
	}{
		"no join":              {[]string{"--cluster", "job-a", "--peer-listen", "127.0.0.1:7946", "--peer-insecure"}, "requires --join PEERS"},
		"no port":              {[]string{"--cluster", "job-a", "--join", "127.0.0.1", "--peer-insecure"}, "--cluster requires peer-listen"},
		"no cluster":           {[]string{"--join", "gw-0", "--member", "a"}, "--member requires --cluster NAME"},
		"no certificates":      {member, "--cluster requires peer-cert, peer-key and peer-ca, or peer-insecure"},
		"no key":               {append(member, "--peer-cert", files.Cert, "--peer-ca", files.CA), "requires peer-cert, peer-key and peer-ca"},
		"both":                 {append(local, certs...), "excludes peer-cert"},
		"a certificate":        {append(member, "--peer-cert", secret, "--peer-key", files.Key, "--peer-ca", files.CA), "peer certificate"},
		"insecure for all":     {append(local, "--peer-listen", "10.1.2.3:7946"), "--peer-insecure: other machines can reach peer-listen 10.1.2.3:7946"},
		"a cluster's name":     {append(local, "--cluster", "job a"), "--cluster: "},
		"a member's name":      {append(local, "--member", "a/b"), "--member: "},
		"a way to join":        {append(local, "--join", "etcd:gw-0"), "use HOST:PORT,HOST:PORT or dns:NAME:PORT"},
		"a peer port":          {append(local, "--peer-listen", "7946"), "must be HOST:PORT"},
		"a peer port of 0":     {append(local, "--peer-listen", "127.0.0.1:0"), "with a port other than 0"},
		"the data port":        {append(local, "--listen", "127.0.0.1:7946"), "--peer-listen must differ from listen"},
		"loopback for others":  {append(local, "--join", "10.1.2.3,10.1.2.4"), "--peer-listen: other machines cannot reach 127.0.0.1:7946, but join names 10.1.2.3:7946"},
		"fits":                 {append(local, "--member", "gw-1"), ""},
		"another's name":       {append(append(member, certs...), "--member", "gw-77"), `has the member name "gw-77", but its certificate is for ["gateway"`},
		"shared for nobody":    {append(local, "MILLRACE_PEER_SHARED_CERT=true"), "excludes peer-cert"},
		"fits by certificates": {append(append(member, certs...), "--peer-allow", "gateway", "--member", "gateway"), ""},
		"fits by a pattern":    {append(append(member, certs...), "--peer-allow", "gate*", "--member", "gateway"), ""},
		"a malformed pattern":  {append(append(member, certs...), "--peer-allow", "gw-[0", "--member", "gateway"), "--peer-allow: \"gw-[0\": the part"},
		"fits by a shared one": {append(append(member, certs...), "MILLRACE_PEER_SHARED_CERT=true"), ""},
		"clients' authority":   {append(append(append(member, certs...), clients...), bundle), "--peer-allow: required, because peer-ca and client-ca hold the same authority"},
		"clients, but allowed": {append(append(append(member, certs...), clients...), bundle, "--peer-allow", "gateway"), ""},
		"clients of others":    {append(append(append(member, certs...), clients...), certtest.New(t).File), ""},
		"a list":               {append(local, "--join", "file:"+secret), secret + ": line 1: "},
		"no list":              {append(local, "--join", "file:"+data+"/none"), "--join: read the list of gateways: "},
		"fits by a list":       {append(local, "--join", "file:"+list), ""},
		"fits by a service":    {append(local, "--join", "srv:_peer._tcp.gateways.job-a.svc"), ""},
		"fits by a name":       {append(local, "--join", "dns:gateways.job-a.svc:7946"), ""},
	} {
		o := millrace(t, nil, append([]string{"serve", "--dataset", "files=" + data, "--check"}, tc.args...)...)
		switch {
		case tc.want == "" && (o.code != exitOK || !strings.Contains(o.stdout, "peer-listen: 127.0.0.1:7946\n")):
			t.Errorf("%s: got %d %s%s, want 0 and the port", name, o.code, o.stdout, o.stderr)
		case tc.want != "" && (o.code != exitUsage || !strings.Contains(o.stderr, tc.want)):
			t.Errorf("%s: got %d %s, want 2 and %q", name, o.code, o.stderr, tc.want)
		}
	}
}

func TestServe_ChecksQuotas(t *testing.T) {
	data := shards(t)
	disk := filepath.Join(t.TempDir(), "disk")
	both := slices.Clip([]string{"--dataset", "a=" + data, "--dataset", "b=" + data})
	withDisk := slices.Clip(append(both, "--disk-cache", disk, "--disk-cache-size", "8MiB"))
	for name, tc := range map[string]struct {
		args []string
		want string // expected error; "": none
	}{
		"nobody's":            {append(both, "--quota", "c=64MiB"), `there is no dataset "c"`},
		"twice":               {append(both, "--quota", "a=64MiB", "--quota", "a=32MiB"), `dataset "a" has two quotas`},
		"no size":             {append(both, "--quota", "a"), "must be DATASET=SIZE"},
		"a size":              {append(both, "--quota", "a=much"), "must be a size"},
		"tiny":                {append(both, "--quota", "a=1KiB"), "must be at least 1MiB"},
		"too much together":   {append(both, "--quota", "a=1000TiB"), "more than the memory limit"},
		"disk without a disk": {append(both, "--quota", "a=64MiB,disk=8MiB"), "requires disk-cache"},
		"a tiny disk":         {append(withDisk, "--quota", "a=64MiB,disk=1KiB"), "disk of \"a\" must be at least 1MiB"},
		"something else":      {append(withDisk, "--quota", "a=64MiB,ssd=1MiB"), "--quota"},
		"fits":                {append(withDisk, "--quota", "a=64MiB,disk=8MiB,b=32MiB"), ""},
	} {
		o := millrace(t, nil, append([]string{"serve", "--check", "--cache-size", "64MiB"}, tc.args...)...)
		switch {
		case tc.want == "" && (o.code != exitOK || !strings.Contains(o.stdout, "    quota:\n        - a=64MiB,disk=8MiB\n        - b=32MiB\n")):
			t.Errorf("%s: got %d %s%s, want 0 and the quotas", name, o.code, o.stdout, o.stderr)
		case tc.want != "" && (o.code != exitUsage || !strings.Contains(o.stderr, tc.want)):
			t.Errorf("%s: got %d %s, want 2 and %q", name, o.code, o.stderr, tc.want)
		}
	}
}
