//go:build !linux

package integration_test

import "context"

func uncached(context.Context, string) {}
