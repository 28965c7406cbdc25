"""What runs came to, as figures; reads records, as `record.json` holds them, and nothing that runs."""
