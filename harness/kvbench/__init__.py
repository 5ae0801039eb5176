"""Measure files and embedded key-value stores under equal conditions.

The rooms, each of which imports only those above it in this list:

    common      messages, whole files, processes
    cell        what shapes a result: all that runs while a store is measured
    stats       intervals, and which stores are good enough
    stores      the stores that there are here, and what is said of them
    experiment  grids of cells, what a factor means, which cells are needed, how long they take
    machine     this computer: its description, folders, file systems and noise
    results     tables and folders of results
    sweep       measures the cells of a grid
    durability  what a store keeps when its process or the power fails
    faults      what is left of a store when its disk fails
    answers     which store to take
    trace       what a program does to its records, recorded and put as a question
    cli         the command kvbench
"""
