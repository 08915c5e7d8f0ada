package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A sizeFlag is a number of bytes on the command line: 4096, 4K, 4KiB, 1M. The
// letters K, M, G and T mean powers of 1024. It is a pflag.Value:
//
//	chunk := sizeFlag(1 << 20)
//	cmd.Flags().Var(&chunk, "chunk", "bytes per task")
type sizeFlag int64

var sizeUnits = []struct {
	letter string
	bytes  int64
}{{"T", 1 << 40}, {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}}

// Set reads a size, and refuses what is no whole number of bytes.
func (s *sizeFlag) Set(text string) error {
	number, unit := strings.ToUpper(text), int64(1)
	for _, u := range sizeUnits {
		short := strings.TrimSuffix(number, "IB")
		if n, ok := strings.CutSuffix(short, u.letter); ok {
			number, unit = n, u.bytes
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit || strings.HasPrefix(number, "+") {
		return fmt.Errorf("%q is no size: write bytes as 4096, or with a unit as 4K, 4KiB, 1M, 1G", text)
	}
	*s = sizeFlag(n * unit)
	return nil
}

// String returns the shortest form that Set reads back, such as 1MiB.
func (s *sizeFlag) String() string {
	for _, u := range sizeUnits {
		if n := int64(*s); n != 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.letter + "iB"
		}
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Type names the flag's value in the help.
func (s *sizeFlag) Type() string { return "size" }

// A durationFlag is a time span on the command line: 5 or 5s, 200ms, 1m30s. A
// bare number is in seconds, as perftest has it. It is a pflag.Value.
type durationFlag time.Duration

// Set reads a duration, which may be zero but not negative.
func (d *durationFlag) Set(text string) error {
	v, err := time.ParseDuration(text)
	if seconds, isNumber := strconv.ParseFloat(text, 64); isNumber == nil {
		v, err = time.Duration(seconds*float64(time.Second)), nil
		if !(seconds < math.MaxInt64/float64(time.Second)) {
			err = strconv.ErrRange
		}
	}
	if err != nil || v < 0 {
		return fmt.Errorf("%q is no duration: write seconds as 5, or with a unit as 5s, 200ms, 1m30s", text)
	}
	*d = durationFlag(v)
	return nil
}

// String returns the form that package time gives a duration.
func (d *durationFlag) String() string { return time.Duration(*d).String() }

// Type names the flag's value in the help.
func (d *durationFlag) Type() string { return "duration" }
