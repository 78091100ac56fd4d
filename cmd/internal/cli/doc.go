// Package cli is the framework of the command line: flags with units, the environment and the configuration file behind
// them, all faults in one answer, progress and printing. It knows no command.
package cli
