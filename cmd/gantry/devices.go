package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/dma"
	"github.com/spf13/cobra"
)

// A deviceRow is what "gantry devices" says of one device.
type deviceRow struct {
	Name      string   `json:"name"`
	PCI       string   `json:"pci"`
	IBDev     string   `json:"ibdev"`
	Iface     string   `json:"iface"` // "" for a virtual function
	Function  string   `json:"function"`
	OnDPU     bool     `json:"on_dpu"`
	Up        bool     `json:"up"`
	MAC       string   `json:"mac"` // "" where there is none
	GIDs      []string `json:"gids"`
	MTU       int      `json:"mtu"`
	ActiveMTU int      `json:"active_mtu"`
	Rate      uint64   `json:"active_rate_bits_per_s"` // 0 where it is not known
	Features  []string `json:"features"`

	MaxBufSize uint64 `json:"max_dma_buf_size"` // 0 without DMA, like the next two
	MaxListLen uint32 `json:"max_dma_list_len"`
	MaxTasks   int    `json:"max_dma_tasks"`

	Representors []representorRow `json:"representors"`
}

// A representorRow is one function of the host that a device represents.
type representorRow struct {
	VUID     string `json:"vuid"`
	PCI      string `json:"pci"`
	Iface    string `json:"iface"`
	Function string `json:"function"`
	Hotplug  bool   `json:"hotplug"`
}

// devicesCommand lists the software devices of this machine.
func devicesCommand(c *console) *cobra.Command {
	virtual := 2
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "list the software devices, their addresses and limits",
		Long: `List the software devices of this machine: one for each network interface, and
pairs of virtual functions, as a program on a DPU and one on its host see them.`,
		RunE: func(*cobra.Command, []string) error {
			if virtual < 0 || virtual > device.MaxVirtual {
				return usagef("--virtual %d: there can be 0 to %d virtual DPU functions", virtual, device.MaxVirtual)
			}
			return c.devices(virtual)
		},
	}
	cmd.Flags().IntVar(&virtual, "virtual", virtual, "list `N` virtual DPU functions, and as many of their host")
	return cmd
}

func (c *console) devices(virtual int) error {
	conf := device.Config{Virtual: virtual}
	if virtual == 0 {
		conf.Virtual = -1
	}
	infos, err := conf.List()
	if err != nil {
		return fmt.Errorf("list the devices: %w", err)
	}
	rows := make([]deviceRow, len(infos))
	for i, info := range infos {
		if rows[i], err = describe(info); err != nil {
			return fmt.Errorf("ask device %s for its limits: %w", info.IBDev(), err)
		}
	}
	if c.json {
		return c.emit(map[string]any{"devices": rows})
	}
	c.deviceTables(rows)
	return nil
}

// describe asks everything there is to know about a device.
func describe(i *device.Info) (row deviceRow, err error) {
	row = deviceRow{
		Name: i.IBDev(), PCI: i.PCI().String(), IBDev: i.IBDev(), Iface: i.Iface(), Function: i.FuncType().String(),
		OnDPU: i.OnDPU(), Up: i.Up(), MTU: i.MTU(), ActiveMTU: i.ActiveMTU(), Rate: i.ActiveRate(),
		GIDs: []string{}, Features: []string{}, Representors: []representorRow{},
	}
	if mac := i.MAC(); mac != [6]byte{} {
		for _, b := range mac {
			row.MAC += ":" + hex.EncodeToString([]byte{b})
		}
		row.MAC = row.MAC[1:]
	}
	for _, gid := range i.GIDs() {
		row.GIDs = append(row.GIDs, gid.String())
	}
	for _, f := range features {
		if i.Supports(f.bit) {
			row.Features = append(row.Features, f.name)
		}
	}
	d, err := device.Open(i)
	if err != nil {
		return row, err
	}
	defer func() { core.KeepFirst(&err, d.Close()) }()
	return row, errors.Join(row.askDMA(d), row.askRepresentors(d))
}

// features are the purposes of a device, with the names that the command prints.
var features = []struct {
	bit  device.Feature
	name string
}{
	{device.FeatureDMA, "dma"},
	{device.FeatureRDMA, "rdma"},
	{device.FeatureComch, "comch"},
	{device.FeatureSyncEvent, "sync_event"},
}

// askDMA fills in the limits of memory copies. How many tasks there can be is
// for a context to say.
func (r *deviceRow) askDMA(d *device.Device) (err error) {
	if dma.Supported(d.Info()) != nil {
		return nil
	}
	if r.MaxBufSize, err = dma.MaxBufSize(d.Info()); err != nil {
		return err
	}
	if r.MaxListLen, err = dma.MaxBufListLen(d.Info()); err != nil {
		return err
	}
	copies, err := dma.New(d)
	if err != nil {
		return err
	}
	r.MaxTasks = copies.MaxTasks()
	return copies.Destroy()
}

// askRepresentors fills in the functions that a DPU function represents.
func (r *deviceRow) askRepresentors(d *device.Device) error {
	if !r.OnDPU {
		return nil
	}
	found, err := d.Representors(device.FilterAll)
	for _, f := range found {
		r.Representors = append(r.Representors, representorRow{
			VUID: f.VUID(), PCI: f.PCI().String(), Iface: f.Iface(), Function: f.FuncType().String(), Hotplug: f.Hotplug(),
		})
	}
	return err
}

// deviceTables prints the devices in tables that are narrow enough for a
// terminal of 80 columns each.
func (c *console) deviceTables(rows []deviceRow) {
	var links, limits, gids, reps [][]string
	for _, r := range rows {
		state := "down"
		if r.Up {
			state = "up"
		}
		iface := r.Iface
		if iface == "" {
			iface = "-"
		}
		links = append(links, []string{r.Name, r.PCI, iface, state, strconv.Itoa(r.MTU), strconv.Itoa(r.ActiveMTU)})
		size := sizeFlag(min(r.MaxBufSize, 1<<62))
		limits = append(limits, []string{r.Name, strings.Join(r.Features, ","),
			size.String(), strconv.FormatUint(uint64(r.MaxListLen), 10), strconv.Itoa(r.MaxTasks)})
		for i, gid := range r.GIDs {
			gids = append(gids, []string{r.Name, strconv.Itoa(i), gid})
		}
		for _, p := range r.Representors {
			reps = append(reps, []string{r.Name, p.Iface, p.PCI, p.VUID})
		}
	}
	c.table([]string{"device", "PCI", "interface", "state", "MTU", "active MTU"}, links, 4, 5)
	c.printf("\n")
	c.table([]string{"device", "fit for", "DMA bytes", "DMA list", "DMA tasks"}, limits, 2, 3, 4)
	if len(gids) > 0 {
		c.printf("\n")
		c.table([]string{"device", "index", "GID"}, gids, 1)
	}
	if len(reps) > 0 {
		c.printf("\n")
		c.table([]string{"device", "representor", "represents", "VUID"}, reps)
	}
}
