// Package browser opens the page of real gateways in a real Chromium: every view, at three sizes and in two themes, with
// datasets that try to run something. axe-core judges the views; what the page's policy refuses, what a script logs and
// what asks another host is a failure.
package browser
