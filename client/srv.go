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

// srvPrefix begins the name of a service whose SRV records are the gateways.
const srvPrefix = "srv:"

// service is the form of a service's name: the label of the port, the protocol, and the name of the hosts.
var service = regexp.MustCompile(`^_[A-Za-z0-9-]+\._tcp\.[^\s/:@{}]+$`)

// parseService reads what is behind srv:. Behind the port label _https the gateways speak https.
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

// target is what an SRV record points to.
type target struct {
	host          string
	port          uint16
	number        int    // at the end of the host's first label; -1: none
	before, after string // the host without its number
}

// numbered finds the number at the end of a host's first label, as the pods of a StatefulSet have it. A label that begins with a
// digit is made of an address, and the number at its end counts nothing.
var numbered = regexp.MustCompile(`^([A-Za-z_](?:[A-Za-z0-9_-]*[A-Za-z_-])?)([0-9]{1,9})(\..*)?$`)

func newTarget(r *net.SRV) target {
	t := target{host: strings.TrimSuffix(r.Target, "."), port: r.Port, number: -1}
	if m := numbered.FindStringSubmatch(t.host); m != nil {
		t.before, t.after = m[1], m[3]
		t.number, _ = strconv.Atoi(m[2])
	}
	return t
}

// findRecords returns the gateways that the SRV records of a service name, by the numbers in the targets' first labels. The targets
// stay names: certificates are made out to them. Where ranks have homes, gateway i has index i while others have no record, as pods
// that are starting.
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

// withMissing adds the targets from number 0 on that have no record, if all targets are numbered alike.
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
