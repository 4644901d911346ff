"""What tests share: daemons, faulty disks, random editors."""
