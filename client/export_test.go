package client

import (
	"context"
	"net"
)

// AnswerSRV has a client get these SRV records, in place of what a name server says.
func AnswerSRV(c *Client, records func() ([]*net.SRV, error)) {
	c.fleet.lookupSRV = func(context.Context, string, string, string) (string, []*net.SRV, error) {
		found, err := records()
		return "", found, err
	}
}
