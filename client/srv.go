package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// srvPrefix starts the name of a service whose SRV records are the gateways.
const srvPrefix = "srv:"

// service matches a service name: port label, protocol, host name.
var service = regexp.MustCompile(`^_[A-Za-z0-9-]+\._tcp\.[^\s/:@{}]+$`)

// parseService parses the name after srv:. The port label _https selects TLS.
func parseService(name string) (source, error) {
	switch {
	case tokenForm.MatchString(name):
		return source{}, errSecretInAddress
	case !service.MatchString(name):
		return source{}, fmt.Errorf("gateway %q: want srv:_http._tcp.NAME, or srv:_https._tcp.NAME", srvPrefix+name[strings.LastIndex(name, "@")+1:])
	}
	scheme := "http"
	if strings.HasPrefix(name, "_https.") {
		scheme = "https"
	}
	return source{base: &url.URL{Scheme: scheme, Host: name}, kind: records}, nil
}

// target is the target of an SRV record.
type target struct {
	host          string
	port          uint16
	number        int    // number at the end of the host's first label; -1: none
	before, after string // parts of the host before and after the number
}

// numbered matches a host whose first label ends in a number, like the pods of a StatefulSet. A
// label that starts with a digit was made from an address, and its number is ignored.
var numbered = regexp.MustCompile(`^([A-Za-z_](?:[A-Za-z0-9_-]*[A-Za-z_-])?)([0-9]{1,9})(\..*)?$`)

func newTarget(r *net.SRV) target {
	t := target{host: strings.TrimSuffix(r.Target, "."), port: r.Port, number: -1}
	if m := numbered.FindStringSubmatch(t.host); m != nil {
		t.before, t.after = m[1], m[3]
		t.number, _ = strconv.Atoi(m[2])
	}
	return t
}

// findRecords returns the gateways of a service's SRV records, ordered by the numbers in the
// targets' first labels. It does not resolve targets to addresses, because certificates contain
// names. With homes, gateway i has index i even while others have no record, such as pods that are
// starting.
func (f *fleet) findRecords(ctx context.Context, s source) ([]*gateway, error) {
	_, found, err := f.lookupSRV(ctx, "", "", s.base.Host)
	if len(found) == 0 {
		return nil, fmt.Errorf("look up gateways %s%s: %w", srvPrefix, s.base.Host, cmp.Or(err, errors.New("no record")))
	}
	targets := make([]target, len(found))
	for i, r := range found {
		targets[i] = newTarget(r)
	}
	slices.SortFunc(targets, func(a, b target) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.host, b.host), cmp.Compare(a.port, b.port))
	})
	if f.home != nil {
		targets = withMissing(targets)
	}
	var all []*gateway
	for _, t := range targets {
		u := url.URL{Scheme: s.base.Scheme, Host: net.JoinHostPort(t.host, strconv.Itoa(int(t.port)))}
		all = append(all, &gateway{base: &u})
	}
	return all, nil
}

// withMissing adds the targets from number 0 that have no record, if all targets differ only in the
// number.
func withMissing(targets []target) []target {
	var all []target
	for _, t := range targets {
		first := targets[0]
		if t.number < len(all) || t.number >= mostGateways || t.before != first.before || t.after != first.after {
			return targets
		}
		for n := len(all); n < t.number; n++ {
			all = append(all, target{host: t.before + strconv.Itoa(n) + t.after, port: t.port, number: n})
		}
		all = append(all, t)
	}
	return all
}
