package client_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/client"
)

// TestEachGatewayIsAskedByItself: an error of one gateway causes no request to another one, and no
// retry.
func TestEachGatewayIsAskedByItself(t *testing.T) {
	asked := map[string]int{}
	serve := func(name string, status int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked[name+r.URL.String()]++
			w.WriteHeader(status)
			w.Write([]byte(`{"name":"` + name + `"}`))
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	urls := []string{serve("a", http.StatusOK), serve("b", http.StatusServiceUnavailable)}
	c, err := client.New(client.Config{Gateways: append(urls, urls[0])})
	if err != nil {
		t.Fatal(err)
	}
	each, err := c.Each(t.Context())
	if err != nil || len(each) != 2 || each[0].String() != urls[0] || each[1].String() != urls[1] {
		t.Fatalf("got %v and %v, want %v, each once", each, err, urls)
	}
	var got struct{ Name string }
	if err := each[0].JSON(t.Context(), "/v1/stats", map[string][]string{"x": {"1"}}, &got); err != nil || got.Name != "a" {
		t.Errorf("got %q and %v, want a", got.Name, err)
	}
	var said *client.Error
	if err := each[1].JSON(t.Context(), "/v1/stats", nil, &got); !errors.As(err, &said) || said.Status != http.StatusServiceUnavailable || said.Gateway != urls[1] {
		t.Errorf("got %v, want the status 503 of %s", err, urls[1])
	}
	if len(asked) != 2 || asked["a/v1/stats?x=1"] != 1 || asked["b/v1/stats"] != 1 {
		t.Errorf("got the requests %v, want one to each", asked)
	}
}

func TestEachGatewayOfANameWithoutAddress(t *testing.T) {
	c, err := client.New(client.Config{Gateways: []string{"dns:gateways.invalid:8080"}})
	if err != nil {
		t.Fatal(err)
	}
	if each, err := c.Each(t.Context()); err == nil || !strings.Contains(err.Error(), "gateways.invalid") {
		t.Errorf("got %v and %v, want an error that names gateways.invalid", each, err)
	}
}
