// One process that is one member of hashicorp/memberlist, with the face of gossip.c: what gossip.py
// starts many of.
//
//	memberlist [OPTION...] NAME PORT
//	  --local           memberlist's profile for one machine, instead of that for a LAN
//	  --key HEX         encrypt with this key of 32 bytes
//	  --interval MS     between two probes; 0: the profile's own
//	  --meta BYTES      size of the metadata that the member carries
//
// It begins when a line with the port of a member to join comes in (0: none), tries to join each second
// until that succeeds, and ends when its standard input ends. It prints a line for each event, with the
// CLOCK_MONOTONIC in nanoseconds:
//
//	123 BY EVENT NAME
//
// EVENT: started, ready, joined (of itself); alive, dead, left (of others).
package main

import (
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"github.com/hashicorp/memberlist"
)

const clockMonotonic = 1

// One write per line: all members of a fleet share a pipe.
func emit(by, event, name string) {
	var now syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic,
		uintptr(unsafe.Pointer(&now)), 0)
	if errno != 0 {
		check(errno)
	}
	fmt.Printf("%d %s %s %s\n", now.Nano(), by, event, name)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "memberlist:", err)
		os.Exit(1)
	}
}

type observer struct{ name string }

func (o observer) NotifyJoin(node *memberlist.Node) {
	if node.Name != o.name {
		emit(o.name, "alive", node.Name)
	}
}
func (o observer) NotifyLeave(node *memberlist.Node) {
	switch {
	case node.Name == o.name:
	case node.State == memberlist.StateLeft:
		emit(o.name, "left", node.Name)
	default:
		emit(o.name, "dead", node.Name)
	}
}
func (o observer) NotifyUpdate(*memberlist.Node) {}

// Metadata of a size, and nothing else.
type metadata []byte

func (m metadata) NodeMeta(limit int) []byte                  { return m[:min(len(m), limit)] }
func (m metadata) NotifyMsg([]byte)                           {}
func (m metadata) GetBroadcasts(overhead, limit int) [][]byte { return nil }
func (m metadata) LocalState(join bool) []byte                { return nil }
func (m metadata) MergeRemoteState(buf []byte, join bool)     {}

func main() {
	isLocal := flag.Bool("local", false, "")
	key := flag.String("key", "", "")
	interval := flag.Int("interval", 0, "")
	meta := flag.Int("meta", 0, "")
	flag.Parse()
	port, err := strconv.Atoi(flag.Arg(1))
	check(err)

	config := memberlist.DefaultLANConfig()
	if *isLocal {
		config = memberlist.DefaultLocalConfig()
	}
	config.Name = flag.Arg(0)
	config.BindAddr, config.AdvertiseAddr = "127.0.0.1", "127.0.0.1"
	config.BindPort, config.AdvertisePort = port, port
	config.LogOutput = io.Discard
	config.Events = observer{config.Name}
	config.Delegate = make(metadata, *meta)
	config.SecretKey, err = hex.DecodeString(*key)
	check(err)
	if *interval > 0 {
		config.ProbeInterval = time.Duration(*interval) * time.Millisecond
		config.ProbeTimeout = min(config.ProbeTimeout, config.ProbeInterval/2)
	}

	emit(config.Name, "started", config.Name)
	var seed int
	_, err = fmt.Scanln(&seed)
	check(err)
	list, err := memberlist.Create(config)
	check(err)
	emit(config.Name, "ready", config.Name)
	for seed > 0 {
		if _, err := list.Join([]string{fmt.Sprintf("127.0.0.1:%d", seed)}); err == nil {
			emit(config.Name, "joined", config.Name)
			break
		}
		time.Sleep(time.Second)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}
