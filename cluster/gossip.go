package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/rs/zerolog"
)

// Times of a gossip: how often the seeds are asked while nobody else is known, and while somebody is (two halves of a
// cluster that were apart for long find each other through them).
const (
	aloneEvery = 2 * time.Second
	seedsEvery = 30 * time.Second
	leaveTime  = time.Second
)

// Gossip finds gateways by word of mouth (SWIM, as memberlist has it: Das, Gupta and Motivala, DSN 2002; with Lifeguard). Nothing
// but addresses is learnt from it: whether one lives, and as what, its hello says.
type Gossip struct {
	Listen  string   // host:port, TCP and UDP; the host is an IP address
	Seeds   []string // host:port of the gossip of others
	KeyFile string   // as ReadKey takes it; "": nothing is encrypted
	Cluster string   // its name: the gossip of another one is passed over
	ID      string   // of this gateway
	Boot    string   // of this run of it
	Address string   // of its peer port, told to the others
	Log     zerolog.Logger
}

// word is what a gossip carries about a gateway.
type word struct {
	Address string `json:"address"`
	Cluster string `json:"cluster"`
}

// Run gossips until ctx ends, then says goodbye. What cannot be bound, and a key that is none, is an error.
func (g *Gossip) Run(ctx context.Context, found func([]string)) error {
	changed := make(chan struct{}, 1)
	wrongKey := make(chan string, 1)
	cfg, err := g.config(changed, wrongKey)
	if err != nil {
		return err
	}
	list, err := memberlist.Create(cfg)
	if err != nil {
		return fmt.Errorf("gossip on %s: %w", g.Listen, err)
	}
	defer func() {
		if err := list.Leave(leaveTime); err != nil {
			g.Log.Debug().Err(err).Msg("gossip: leave")
		}
		if err := list.Shutdown(); err != nil {
			g.Log.Debug().Err(err).Msg("gossip: shut down")
		}
	}()
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() { g.askSeeds(ctx, list) })
	found(g.addresses(list))
	var told time.Time // of a wrong key: others repeat themselves
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
			found(g.addresses(list))
		case line := <-wrongKey:
			if !told.IsZero() && time.Since(told) < time.Minute {
				continue
			}
			told = time.Now()
			g.Log.Warn().Str("file", g.KeyFile).Str("said", line).
				Msg("gossip: what came cannot be read with this key: give every gateway of the cluster the same --gossip-key-file")
		}
	}
}

// askSeeds asks the seeds for everybody that they know, again and again, until ctx ends. One that is down takes a while.
func (g *Gossip) askSeeds(ctx context.Context, list *memberlist.Memberlist) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		for _, seed := range g.Seeds {
			if ctx.Err() != nil {
				return
			}
			if _, err := list.Join([]string{seed}); err != nil {
				g.Log.Debug().Str("seed", seed).Err(err).Msg("gossip: ask a seed")
			}
		}
		if list.NumMembers() > 1 {
			timer.Reset(seedsEvery)
		} else {
			timer.Reset(aloneEvery)
		}
	}
}

func (g *Gossip) config(changed chan<- struct{}, wrongKey chan<- string) (*memberlist.Config, error) {
	host, port, err := net.SplitHostPort(g.Listen)
	if err != nil {
		return nil, fmt.Errorf("gossip on %q: want HOST:PORT", g.Listen)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	cfg := memberlist.DefaultLANConfig()
	if cfg.BindPort, err = strconv.Atoi(port); err != nil {
		return nil, fmt.Errorf("gossip on %s: %w", g.Listen, err)
	}
	if host != "" {
		cfg.BindAddr = host
	}
	if ip := net.ParseIP(cfg.BindAddr); ip == nil {
		return nil, fmt.Errorf("gossip on %s: want an IP address to listen on", g.Listen)
	} else if own, _, err := net.SplitHostPort(g.Address); err == nil && ip.IsUnspecified() && net.ParseIP(own) != nil {
		cfg.AdvertiseAddr = own // the machine of the peer port
	}
	cfg.AdvertisePort = cfg.BindPort
	cfg.Name = g.ID + "/" + g.Boot
	cfg.Label = g.Cluster
	cfg.TCPTimeout = 2 * time.Second // of a seed that is down
	cfg.RequireNodeNames = false
	if g.KeyFile != "" {
		if cfg.SecretKey, err = ReadKey(g.KeyFile); err != nil {
			return nil, err
		}
	}
	meta, err := json.Marshal(word{g.Address, g.Cluster})
	if err != nil {
		return nil, fmt.Errorf("gossip: %w", err)
	}
	if len(meta) > memberlist.MetaMaxSize {
		return nil, fmt.Errorf("gossip: address and cluster name take %d bytes, want at most %d", len(meta), memberlist.MetaMaxSize)
	}
	d := &listener{meta: meta, changed: changed}
	cfg.Delegate, cfg.Events = d, d
	cfg.Logger = log.New(&translator{log: g.Log, wrongKey: wrongKey}, "", 0)
	return cfg, nil
}

// addresses lists where the gateways that are spoken of may be asked, this one left out.
func (g *Gossip) addresses(list *memberlist.Memberlist) []string {
	var all []string
	for _, n := range list.Members() {
		var w word
		switch err := json.Unmarshal(n.Meta, &w); {
		case err != nil || CheckAddress(w.Address) != nil:
			g.Log.Debug().Str("name", n.Name).Msg("gossip: no address")
		case w.Cluster == g.Cluster && n.Name != g.ID+"/"+g.Boot:
			all = append(all, w.Address)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// listener hears of the gossip. memberlist calls it under its lock, so it only leaves a note.
type listener struct {
	meta    []byte
	changed chan<- struct{}
}

func (l *listener) note() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (l *listener) NotifyJoin(*memberlist.Node)       { l.note() }
func (l *listener) NotifyLeave(*memberlist.Node)      { l.note() }
func (l *listener) NotifyUpdate(*memberlist.Node)     { l.note() }
func (l *listener) NodeMeta(int) []byte               { return l.meta }
func (l *listener) NotifyMsg([]byte)                  {}
func (l *listener) GetBroadcasts(int, int) [][]byte   { return nil }
func (l *listener) LocalState(bool) []byte            { return nil }
func (l *listener) MergeRemoteState(_ []byte, _ bool) {}

// translator writes what memberlist logs as debug lines, and notes what only a wrong key explains.
type translator struct {
	log      zerolog.Logger
	wrongKey chan<- string
}

func (t *translator) Write(line []byte) (int, error) {
	text := string(bytes.TrimSpace(line))
	t.log.Debug().Msg("gossip: " + text)
	for _, sign := range []string{"installed keys could decrypt", "encryption is not configured", "remote state is not encrypted"} {
		if bytes.Contains(line, []byte(sign)) {
			select {
			case t.wrongKey <- text:
			default:
			}
		}
	}
	return len(line), nil
}
