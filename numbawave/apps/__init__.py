"""What people run: velocity models, misfits, the inversion job, pictures and the command line."""
