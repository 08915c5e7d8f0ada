// Command gantry shows and measures what the packages of Gantry do: it lists
// devices, checks the machine, runs the samples, copies files through DMA tasks
// and runs benchmarks. Run "gantry help" for its commands.
//
// It exits with 0 when the work is done, with 1 when it failed, and with 2 when
// the command line is wrong. Results go to standard output, everything else to
// standard error. With --json, standard output holds one JSON document.
package main

import "os"

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }
