package integration_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/integration/harness"
)

// TestRanksFindTheirGatewaysByName reads epochs through independent gateways, which a client finds
// by the SRV records of a real name server or by a pattern. Together the gateways read the store
// once. If a gateway has no name, like a pod that is starting, only its own ranks lose their home.
func TestRanksFindTheirGatewaysByName(t *testing.T) {
	store, reads, alone := homedStore(t)
	for _, how := range []func(*testing.T, []*harness.Gateway) (cfg client.Config, lose func()){namedByRecords, namedByPattern} {
		gateways := make([]*harness.Gateway, homed)
		for i := range gateways {
			gateways[i] = serve(t, store, "--cache-size", "16MiB", "--lame-duck", "0s", "--host", fmt.Sprintf("gateways-%d.gateways.test", i))
		}
		cfg, lose := how(t, gateways)
		cfg.Dataset, cfg.Home = dataset, client.HomeByRank
		opt := client.Options{WorldSize: 2 * homed, BatchSize: 256, Share: "locality", Homes: homed}
		// The two ranks of the lost gateway go to two other gateways, each of which reads
		// that gateway's quarter once. In addition, both gateways read parts of chunks at
		// the border of two homes: 0.1 to 0.9 % of the data. A rank that used another
		// home's gateway would add at least 12 %.
		for epoch, most := range []float64{1.03, .005, .54} {
			if epoch == 2 {
				lose()
			}
			reads.Forget()
			opt.Epoch = uint64(epoch)
			allRanksRead(t, cfg, opt)
			got := float64(reads.Bytes()) / alone
			t.Logf("%v, epoch %d: %.4f of the data read from the store", cfg.Gateways, epoch, got)
			if got > most {
				t.Errorf("%v, epoch %d: got %.4f of the data read from the store, want at most %.4f", cfg.Gateways, epoch, got, most)
			}
		}
	}
}

// allRanksRead reads an epoch with all ranks of a new client, and checks that each sample is
// delivered once.
func allRanksRead(t *testing.T, cfg client.Config, opt client.Options) {
	t.Helper()
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseIdle()
	if _, err := c.ReadEpoch(t.Context(), client.Epoch{Options: opt, AllRanks: true, Connections: 16}); err != nil {
		t.Errorf("%v, epoch %d: %v", cfg.Gateways, opt.Epoch, err)
	}
}

// lost is the index of the gateway that loses its name.
const lost = 1

// namedByRecords names the gateways by SRV records, in reverse order. lose removes the records of
// one gateway.
func namedByRecords(t *testing.T, gateways []*harness.Gateway) (cfg client.Config, lose func()) {
	t.Helper()
	names, before := &zone{}, net.DefaultResolver
	net.DefaultResolver = names.resolver(t)
	t.Cleanup(func() { net.DefaultResolver = before })
	records := map[string][]string{}
	const service = "_http._tcp.gateways.test."
	for i := len(gateways) - 1; i >= 0; i-- {
		host := fmt.Sprintf("gateways-%d.gateways.test.", i)
		_, port, _ := net.SplitHostPort(strings.TrimPrefix(gateways[i].URL, "http://"))
		records[host] = []string{"A 127.0.0.1"}
		records[service] = append(records[service], fmt.Sprintf("SRV 0 10 %s %s", port, host))
	}
	names.set(0, records)
	return client.Config{Gateways: []string{"srv:" + strings.TrimSuffix(service, ".")}, HTTP: harness.Recorded(t).Client("ranks")}, func() {
		left := map[string][]string{}
		for name, texts := range records {
			for _, text := range texts {
				if of := fmt.Sprintf("gateways-%d.", lost); !strings.HasPrefix(name, of) && !strings.Contains(text, of) {
					left[name] = append(left[name], text)
				}
			}
		}
		names.set(0, left)
	}
}

// namedByPattern names the gateways by a pattern that the client's dialer resolves. lose removes
// the name of one gateway.
func namedByPattern(t *testing.T, gateways []*harness.Gateway) (cfg client.Config, lose func()) {
	t.Helper()
	known := map[string]string{}
	for i, g := range gateways {
		known[fmt.Sprintf("gateways-%d.gateways.test:8080", i)] = strings.TrimPrefix(g.URL, "http://")
	}
	dial := func(ctx context.Context, network, name string) (net.Conn, error) {
		if known[name] == "" {
			return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
		}
		return new(net.Dialer).DialContext(ctx, network, known[name])
	}
	cfg = client.Config{
		Gateways: []string{fmt.Sprintf("gateways-{0..%d}.gateways.test:8080", homed-1)},
		HTTP:     &http.Client{Transport: harness.Recorded(t).Through("ranks", &http.Transport{DialContext: dial})},
	}
	return cfg, func() {
		cfg.HTTP.CloseIdleConnections()
		delete(known, fmt.Sprintf("gateways-%d.gateways.test:8080", lost))
	}
}
