// Package browser tests the pages of real gateways in a real Chromium: every view, at three sizes
// and in two themes, with hostile datasets. axe-core checks the views. Policy violations, script
// errors and requests to other hosts fail a test.
package browser
