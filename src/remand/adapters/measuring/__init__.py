"""What measuring keeps on this machine, outside every repository: results, reports, and which tools there are."""
