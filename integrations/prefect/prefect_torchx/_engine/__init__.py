"""Everything that touches Prefect where it is private, or differs between its versions.

Written against Prefect 3.6.27 to 3.9.1. What is private, where we use it, and what is lost without it:

=========================================  ===========================================================
``_internal.control_listener.get_intent``  `intent`: whether a SIGTERM is a cancel, since 3.6.27; without
                                           it the flow run's state on the server tells, which is a request
``TaskRunner._cancel_events``              `causes`: a submitted task learns that its flow is ending;
                                           without it only from the flow run's state
``_internal…cancellation.CancelledError``  `causes`: a timeout, as it arrives in the code that runs too
                                           long; without it our own look at the clock tells, a second later
``ProcessPoolTaskRunner.cancel_all``       `pool`: public, but replaced by ours, which calls it; the pool's
and ``_executor._processes``               children learn from it that their flow is interrupted; without
                                           it a signal to the flow's process alone waits for their apps
``TaskRunner.__enter__``, ``__exit__``,    `flow_end`: public, but replaced by ours, which call them;
and ``ProcessPoolTaskRunner.submit``       a cancelled script is Cancelled once its flow has ended, without
                                           them only after five minutes, by Prefect's server
``PREFECT__FLOW_RUN_ID``                   `flow_end`: which flow run a process was started for; without it
                                           leases end what a cancelled run has left
the module of Prefect's SIGTERM handler    `sigterm`: that the handler is Prefect's; without it a signal whose
                                           exception asyncio has swallowed is noticed by nobody
``BaseWorker._get_configuration``          `job_configuration`: of Prefect 3.6 only; newer versions have
                                           a public name for it
=========================================  ===========================================================
"""

__all__: list[str] = []
