package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/testing/certtest"
)

// FleetConfig describes the gateways of one cluster.
type FleetConfig struct {
	Store   *Store
	Env     []string // environment to reach the store; nil: the store's own
	Dataset string
	Size    int
	Nodes   []*Node             // one for each gateway; nil: all on this machine
	TLS     *certtest.Authority // nil: peers use plain HTTP
	Join    string              // the value of --join; "": a list of all members
	Program string              // the program of every gateway; "": the one that Build made
	Args    []string            // additional arguments of every gateway, after its own
}

// Fleet is a set of gateways that form one cluster, running or not.
type Fleet struct {
	Members []*Member
	cfg     FleetConfig
}

// Member is one member of a fleet. It keeps its addresses and files over restarts.
type Member struct {
	*Gateway // the most recently started process

	Name string
	At   *Node
	Data string // address of the data port
	Peer string // of the peer port

	admin string
	args  []string
}

// ClusterName is the cluster name of every fleet.
const ClusterName = "job-a"

// NewFleet prepares a fleet without starting it.
func NewFleet(t testing.TB, cfg FleetConfig) *Fleet {
	t.Helper()
	f := &Fleet{cfg: cfg}
	var free []string
	if cfg.Nodes == nil {
		free = FreeAddresses(t, 3*cfg.Size)
	}
	for i := range cfg.Size {
		m := &Member{Name: fmt.Sprintf("gw-%d", i)}
		if cfg.Nodes == nil {
			own := free[3*i : 3*i+3]
			m.Data, m.admin, m.Peer = own[0], own[1], own[2]
		} else {
			m.At = cfg.Nodes[i]
			m.Data, m.admin, m.Peer = m.At.IP+":8080", m.At.IP+":8081", m.At.IP+":7946"
		}
		f.Members = append(f.Members, m)
	}
	for i, m := range f.Members {
		m.args = f.flags(t, i)
	}
	return f
}

func (f *Fleet) flags(t testing.TB, i int) []string {
	t.Helper()
	m := f.Members[i]
	args := []string{
		"serve", "--dataset", f.cfg.Dataset + "=" + f.cfg.Store.Dataset(f.cfg.Dataset), "--listen", m.Data, "--admin-listen", m.admin,
		"--cluster", ClusterName, "--member", m.Name, "--peer-listen", m.Peer,
	}
	var peers, names []string
	for _, o := range f.Members {
		peers, names = append(peers, o.Peer), append(names, o.Name)
	}
	args = append(args, "--join", cmp.Or(f.cfg.Join, strings.Join(peers, ",")))
	if m.At != nil {
		args = append(args, "--insecure-no-auth", "--insecure-admin")
	}
	if f.cfg.TLS == nil {
		args = append(args, "--peer-insecure")
	} else {
		host, _, err := net.SplitHostPort(m.Peer)
		if err != nil {
			t.Fatal(err)
		}
		own := Certify(t, f.cfg.TLS, m.Name, host)
		args = append(args, "--peer-cert", own.Cert, "--peer-key", own.Key, "--peer-ca", own.CA)
		for _, name := range names {
			args = append(args, "--peer-allow", name)
		}
	}
	return append(args, f.cfg.Args...)
}

// Begin starts a member, with additional flags if given, and does not wait until it is ready.
func (f *Fleet) Begin(t testing.TB, i int, args ...string) {
	t.Helper()
	m := f.Members[i]
	env := f.cfg.Env
	if env == nil {
		env = f.cfg.Store.Env
	}
	program := f.cfg.Program
	if program == "" {
		program = Binary(t)
	}
	m.Gateway = &Gateway{
		Process: StartAt(t, m.At, m.Name, program, append(baseEnv(t), env...), append(slices.Clone(m.args), args...)...),
		URL:     "http://" + m.Data, Admin: "http://" + m.admin, asker: m.At.client(), log: Recorded(t),
	}
}

// Start starts a member, with additional flags if given, and waits until it is ready.
func (f *Fleet) Start(t testing.TB, i int, args ...string) {
	t.Helper()
	f.Begin(t, i, args...)
	f.Members[i].Ready(t, f.Members[i].At.answers(f.Members[i].URL+"/readyz"))
}

// StartAll starts the given members in parallel, or all members by default, and waits until they
// are ready.
func (f *Fleet) StartAll(t testing.TB, which ...int) {
	t.Helper()
	which = f.orAll(which)
	for _, i := range which {
		f.Begin(t, i)
	}
	for _, i := range which {
		f.Members[i].Ready(t, f.Members[i].At.answers(f.Members[i].URL+"/readyz"))
	}
}

// orAll returns the given members, or all members by default.
func (f *Fleet) orAll(which []int) []int {
	if len(which) > 0 {
		return which
	}
	for i := range f.Members {
		which = append(which, i)
	}
	return which
}

// URLs returns the addresses of the data ports.
func (f *Fleet) URLs() []string {
	urls := make([]string, len(f.Members))
	for i, m := range f.Members {
		urls[i] = "http://" + m.Data
	}
	return urls
}

// View is a gateway's report about the cluster's members.
type View struct {
	Cluster string  `json:"cluster"`
	Number  uint64  `json:"view"`
	Self    Known   `json:"self"`
	Members []Known `json:"members"`
	Others  []struct {
		Address string `json:"address"`
		ID      string `json:"id"`
		State   string `json:"state"`
		Reason  string `json:"reason"`
	} `json:"others"`
	Faults []string `json:"faults"`
}

// Known is one member of a View.
type Known struct {
	ID      string `json:"id"`
	Boot    string `json:"boot"`
	Address string `json:"address"`
	State   string `json:"state"`
	Reason  string `json:"reason"`
	Serves  []struct {
		Dataset    string  `json:"dataset"`
		Generation string  `json:"generation"`
		Share      float64 `json:"owned_share"`
	} `json:"serves"`
}

// View returns the members in a member's report.
func (m *Member) View(ctx context.Context) (View, error) {
	var v View
	r, err := m.TryAdmin(ctx, "/v1/cluster")
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(r.Body, &v); err != nil || r.Status != http.StatusOK {
		return v, fmt.Errorf("GET /v1/cluster: status %d: %w: %s", r.Status, err, r.Body)
	}
	return v, nil
}

// Sees returns a probe for Ready, which requires that the member sees n members alive, itself
// included.
func (m *Member) Sees(n int) func(context.Context) error {
	return func(ctx context.Context) error {
		v, err := m.View(ctx)
		if err != nil {
			return err
		}
		alive := 1
		for _, o := range v.Members {
			if o.State == "alive" {
				alive++
			}
		}
		if alive != n {
			return fmt.Errorf("%s sees %d members alive, want %d: %+v, others %+v", m.Name, alive, n, v.Members, v.Others)
		}
		return nil
	}
}

// Agree waits until each of the given members sees as many members alive as were given. The default
// is all members.
func (f *Fleet) Agree(t testing.TB, which ...int) {
	t.Helper()
	which = f.orAll(which)
	for _, i := range which {
		f.Members[i].Ready(t, f.Members[i].Sees(len(which)))
	}
}

// Overdue returns the number of the gateways' requests and reads that were abandoned or repeated
// because they took too long. Each may have caused one more read of its bytes from the store.
// Without a stall of the machine the number is 0.
func Overdue(t testing.TB, members ...*Member) (sum float64) {
	t.Helper()
	for _, m := range members {
		for _, name := range []string{"peer_failed", "peer_hedges", "store_hedges", "store_retries"} {
			sum += m.Metric(t, "millrace_"+name+"_total", "")
		}
	}
	return sum
}
